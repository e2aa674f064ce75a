"""How much slower than bare SQLite: `python -m tests.benchmarks`. See `docs/benchmarks.md`.

Not tests: a shared machine's clock proves nothing, so pytest does not collect them.
"""
