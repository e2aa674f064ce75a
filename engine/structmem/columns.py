"""Columns as callers describe them: what a `Column`, or a mapping that stands for one, may say."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from structmem import schema
from structmem.errors import InvalidCall, shown
from structmem.identifiers import check_name, check_type, fold, nearest
from structmem.results import Column, Reference
from structmem.values import check_value

COLUMNS_MAX: Final = 1_999
"""SQLite allows 2 000 columns in a table and in a result; a row is read with its rowid beside."""

_COLUMN_FIELDS: Final = ", ".join(Column.__struct_encode_fields__)

_SQL_DEFAULT: Final = re.compile(
    r"(?i)current_(timestamp|date|time)|null|true|false"
    r"|\(?(datetime|date|time|unixepoch|julianday|strftime|random|randomblob|hex|lower)\(.*\)"
)
"""What SQL users write as a default and mean as an expression."""

_ACTIONS: Final = ("NO ACTION", "RESTRICT", "SET NULL", "SET DEFAULT", "CASCADE")


def check_columns(columns: object, max_value_bytes: int) -> list[Column]:
    """The columns as `Column`s, each checked, none twice, with at most one primary key."""
    if isinstance(columns, str | bytes | Mapping) or not isinstance(columns, Iterable):
        raise InvalidCall(
            f"columns must be a list of columns, not {shown(cast('object', columns))}.",
            hint='Such as [Column("email", "TEXT"), Column("name")].',
        )
    checked = [
        check_column(column, max_value_bytes) for column in cast("Iterable[object]", columns)
    ]
    if not 1 <= len(checked) <= COLUMNS_MAX:
        raise InvalidCall(f"A table has 1 to {COLUMNS_MAX:,} columns, not {len(checked):,}.")
    _check_names(checked)
    keys = [column.name for column in checked if column.primary_key]
    if len(keys) > 1:
        raise InvalidCall(
            f"Only one column can be the primary key, not {', '.join(map(repr, keys))}.",
            hint="Make one the key; mark the others unique if they are.",
        )
    return checked


def check_column(given: object, max_value_bytes: int) -> Column:
    column = _to_column(given)
    name = check_name(column.name, "column")
    column = msgspec.structs.replace(
        column,
        name=name,
        type=check_type(column.type, name) if column.type is not None else None,
        description=check_description(column.description),
    )
    if column.default is not UNSET:
        default = check_value(column.default, f"Default of column {name!r}", max_value_bytes)
        column = msgspec.structs.replace(column, default=default)
    if column.references is not None:
        _check_reference_text(name, column.references)
    return column


def _to_column(given: object) -> Column:
    if isinstance(given, Column):
        given = _fields_of(given)
    if not isinstance(given, Mapping):
        raise InvalidCall(f"A column must be a Column or a mapping, not {shown(given)}.")
    fields = _camel_keys(cast("Mapping[Any, Any]", given))
    what = f"Column {shown(fields['name'])}" if "name" in fields else "A column without a name"
    for field in fields.keys() - set(Column.__struct_encode_fields__):
        close = nearest(field, Column.__struct_encode_fields__)
        raise InvalidCall(
            f"{what}: there is no {shown(field)}.",
            hint=f"Did you mean {close!r}?" if close else f"A column has {_COLUMN_FIELDS}.",
        )
    try:
        return msgspec.convert(fields, Column)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidCall(
            f"{what} is not one: {error}.",
            hint=f"A column has {_COLUMN_FIELDS}; references is a mapping with table and column.",
        ) from error


def _fields_of(given: Column | Reference) -> dict[str, Any]:
    """A struct as a mapping, to be checked like one: structs take whatever they are made of."""
    fields = msgspec.structs.asdict(given)
    return {name: value for name, value in fields.items() if value is not UNSET}


def _camel_keys(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Accept `not_null` for `notNull`, in the mapping and in the reference inside it."""
    result: dict[str, Any] = {}
    for key, value in given.items():
        first, *rest = str(key).split("_")
        name = first + "".join(word.capitalize() for word in rest)
        if name in result:
            raise InvalidCall(f"{shown(name)} of a column is given twice.", hint="Give it once.")
        result[name] = _reference_keys(value) if name == "references" else value
    return result


def _reference_keys(given: object) -> object:
    if isinstance(given, Reference):
        given = _fields_of(given)
    return _camel_keys(cast("Mapping[Any, Any]", given)) if isinstance(given, Mapping) else given


def _check_names(columns: list[Column]) -> None:
    seen: dict[str, str] = {}
    for column in columns:
        other = seen.get(fold(column.name))
        if other is not None:
            raise InvalidCall(
                f"The columns {other!r} and {column.name!r} have one name: ASCII case is ignored."
            )
        seen[fold(column.name)] = column.name
    has_integer_key = any(c.primary_key and fold(c.type or "") == "integer" for c in columns)
    _check_rowid_name(seen.values(), has_integer_key)


def _check_rowid_name(columns: Iterable[str], has_integer_key: bool) -> None:
    """Refuse columns of these names when nothing is left to call the row's identity by."""
    if not has_integer_key and schema.free_rowid_name(columns) is None:
        raise InvalidCall(
            "Columns named rowid, oid and _rowid_ together leave no name for the row's identity.",
            hint="Rename one, or make an INTEGER column the primary key.",
        )


def _check_reference_text(column: str, reference: Reference) -> None:
    check_name(reference.table, "table")
    check_name(reference.column, "column")
    for action in (reference.on_delete, reference.on_update):
        if action is not None and action not in _ACTIONS:
            raise InvalidCall(
                f"Column {column!r}: {shown(action)} is no foreign key action.",
                hint=f"It is one of {', '.join(_ACTIONS)}.",
            )


def check_description(description: object) -> str | None:
    if description is None:
        return None
    if not isinstance(description, str) or "\0" in description:
        raise InvalidCall(
            f"A description must be text without NUL characters, not {shown(description)}."
        )
    try:
        description.encode()
    except UnicodeEncodeError:
        raise InvalidCall(
            f"The description {shown(description)} is not valid Unicode text."
        ) from None
    return str.__str__(description)


def defaults_like_sql(columns: list[Column]) -> list[str]:
    """Texts that were probably meant to be evaluated, which a default never is."""
    return [
        f"The default of {column.name!r} is the text {column.default!r}; it is not evaluated."
        for column in columns
        if isinstance(column.default, str) and _SQL_DEFAULT.fullmatch(column.default.strip())
    ]
