"""Doors for the harnesses that models live in. Each module needs its one harness, and nothing
imports them from inside."""
