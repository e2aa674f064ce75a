"""The text of definitions: names quoted, values as literals, descriptions as comments."""

from collections.abc import Sequence

from msgspec import UNSET

from structmem.identifiers import quote
from structmem.results import Column, Reference
from structmem_journal import Value


def table_text(table: str, columns: Sequence[Column], description: str | None) -> str:
    """The `CREATE TABLE` statement, descriptions as comments, exactly as SQLite will keep it."""
    lines = [f"CREATE TABLE {quote(table)} ({_comment(description)}"]
    for index, column in enumerate(columns):
        comma = "," if index < len(columns) - 1 else ""
        lines.append(f"  {' '.join(_column_parts(column))}{comma}{_comment(column.description)}")
    lines.append(")")
    return "\n".join(lines)


def _comment(description: str | None) -> str:
    """` -- …` to the end of the line, further lines below. A line comment ends only at a newline,
    so no text can leave it."""
    lines = (description or "").splitlines()
    return "".join(f" -- {line}" if i == 0 else f"\n  -- {line}" for i, line in enumerate(lines))


def added_column_text(column: Column) -> str:
    """The definition as `ALTER TABLE … ADD COLUMN` takes it. SQLite puts the table's end right
    behind the text, so the comment must not stand last."""
    name, *rest = _column_parts(column)
    if column.description is None:
        return " ".join([name, *rest])
    rest = rest or ["DEFAULT NULL"]  # which is what no default means
    return f"{name}{_comment(column.description)}\n  {' '.join(rest)}"


def index_text(index: str, table: str, columns: Sequence[str], *, unique: bool) -> str:
    names = ", ".join(map(quote, columns))
    kind = "UNIQUE INDEX" if unique else "INDEX"
    return f"CREATE {kind} {quote(index)} ON {quote(table)} ({names})"


def _column_parts(column: Column) -> list[str]:
    parts = [quote(column.name)]
    if column.type:
        parts.append(column.type)
    if column.primary_key:
        parts.append("PRIMARY KEY")
    if column.not_null:
        parts.append("NOT NULL")
    if column.unique:
        parts.append("UNIQUE")
    if column.default is not UNSET:
        parts.append(f"DEFAULT {literal(column.default)}")
    if column.references is not None:
        parts.append(_reference_text(column.references))
    return parts


def _reference_text(reference: Reference) -> str:
    text = f"REFERENCES {quote(reference.table)} ({quote(reference.column)})"
    if reference.on_delete:
        text += f" ON DELETE {reference.on_delete}"
    if reference.on_update:
        text += f" ON UPDATE {reference.on_update}"
    return text


def literal(value: Value) -> str:
    """`value` as an SQL literal that gives exactly this value."""
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case float():
            return _float_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            if "\0" in value:  # SQL text ends at a NUL
                return f"(CAST(X'{value.encode().hex()}' AS TEXT))"
            return "'" + value.replace("'", "''") + "'"


def _float_literal(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "9e999" if value > 0 else "-9e999"  # SQLite reads an overflow as infinity
    return repr(value)
