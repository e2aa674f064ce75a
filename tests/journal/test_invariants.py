"""A bug in the product is loud: no handler for ordinary errors hides it."""

import contextlib

import pytest

from structmem_journal import InvariantViolated, invariant


def test_a_rule_that_holds_says_nothing() -> None:
    invariant(True, "one is one")


def test_a_broken_rule_passes_every_handler_of_errors() -> None:
    with pytest.raises(InvariantViolated, match="one is two"), contextlib.suppress(Exception):
        invariant(False, "one is two")
