"""What a model is handed: one tool for each operation that it was granted.

Nothing here knows a harness. `structmem.adapters` has the doors to those.
"""
