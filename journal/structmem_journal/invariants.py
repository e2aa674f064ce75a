"""Checks that guard against our own mistakes, on in every build.

`assert` disappears under `python -O`; these do not. An `InvariantViolated` is a bug in structmem,
never a fault of the caller, so nothing catches it.
"""


class InvariantViolated(BaseException):
    """A rule that the code relies on does not hold. Please report it; the data was not touched.

    It derives from `BaseException` so that no `except Exception` on its way hides it.
    """


def invariant(holds: bool, rule: str) -> None:
    """Raise `InvariantViolated` naming `rule` unless `holds`."""
    if not holds:
        raise InvariantViolated(rule)
