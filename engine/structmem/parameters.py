"""Parameters: as many as the SQL has, by position or by name, never both."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from structmem.errors import InvalidCall
from structmem_journal import Value

Bindings = list[Value] | dict[str, Value]


def check_count(names: Sequence[str | None], bindings: Bindings) -> Bindings:
    """`bindings`, if they are just what a statement with the parameters `names` needs.

    A parameter without a name (`?`) or with a number for one (`?2`) is positional. Raises
    `InvalidCall` naming what is missing and what is too much.
    """
    wanted = {name for name in names if name is not None and not name.isdecimal()}
    positional = any(name is None or name.isdecimal() for name in names)
    if positional and wanted:
        raise InvalidCall(
            "The SQL mixes ? and :name parameters.", hint="Use one of the two throughout."
        )
    if isinstance(bindings, dict):
        if positional:
            raise InvalidCall(
                "The SQL has ? parameters; their values must be a list, not a mapping.",
                hint="Pass a list, or write :name in the SQL.",
            )
        _check_names(wanted, bindings.keys())
    else:
        _check_length(len(names), wanted, len(bindings))
    return bindings


def _check_length(needed: int, wanted: AbstractSet[str], given: int) -> None:
    if wanted:
        raise InvalidCall(
            f"The SQL has the parameters {_listed(wanted)}; their values must be a mapping.",
            hint="Pass a value for each name, or write ? in the SQL.",
        )
    if needed != given:
        raise InvalidCall(
            f"The number of values does not fit: the SQL has {needed} ?, and {given} were given.",
            hint="Pass one value for each ?, in order.",
        )


def _check_names(wanted: AbstractSet[str], given: AbstractSet[str]) -> None:
    missing, extra = wanted - given, given - wanted
    if missing:
        raise InvalidCall(
            f"The parameters {_listed(missing)} of the SQL have no value.",
            hint="Pass a value for each name, without the colon.",
        )
    if extra:
        raise InvalidCall(
            f"The SQL has no parameters {_listed(extra)}.",
            hint="Leave their values out, or use them in the SQL.",
        )


def _listed(names: AbstractSet[str]) -> str:
    return ", ".join(f":{name}" for name in sorted(names))
