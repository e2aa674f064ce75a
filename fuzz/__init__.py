"""Searching for what the examples in `tests/` do not show. Each module says what it checks."""
