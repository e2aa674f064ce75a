"""Schema objects put in place by their recorded texts: created, dropped, redefined.

Rules, each with its reason:

- An object is found as the effect says, text for text, or it is left alone.
- A table is dropped only when nothing goes with it: its rows, indexes and triggers stand in effects
  of their own, and what does not came from another tool.
- A table is redefined by making it anew, never by `ALTER`: then its text is exactly the recorded
  one, and what SQLite refuses today of what it once allowed does not matter.
"""

from typing import Final

import apsw

from structmem import defaults, schema, sql, stores
from structmem.identifiers import INTERNAL_PREFIX, fold, quote
from structmem.misfits import Misfit
from structmem.schema import Table, load_table
from structmem_journal import SchemaChanged

_MOVED: Final = f"{INTERNAL_PREFIX}moved"


def change(connection: apsw.Connection, effect: SchemaChanged) -> None:
    """Take the object from `before` to `after`. Raises `Misfit`."""
    what = f"{effect.kind} {effect.name!r}"
    found = _text_of(connection, effect)
    if found != effect.before:
        raise Misfit(what, effect.before, found)
    if effect.before is not None and effect.after is not None:
        _redefine(connection, effect, effect.after)
    elif effect.after is not None:
        sql.run(connection, effect.after)
    else:
        _drop(connection, effect)
    if _text_of(connection, effect) != effect.after:
        raise Misfit(what, effect.after, _text_of(connection, effect))


def _text_of(connection: apsw.Connection, effect: SchemaChanged) -> str | None:
    row = sql.first(
        connection,
        "SELECT sql FROM main.sqlite_schema WHERE type = ? AND name = ?",
        (effect.kind, effect.name),
    )
    return row[0] if row else None


def _drop(connection: apsw.Connection, effect: SchemaChanged) -> None:
    if effect.kind == "table" and stores.count(connection, effect.name):
        raise Misfit(f"table {effect.name!r}", "no rows left", "rows that it never recorded")
    left = _dependents(connection, effect.name) if effect.kind in ("table", "view") else []
    if left:
        raise Misfit(f"{effect.kind} {effect.name!r}", "nothing left of it", left[0])
    sql.run(connection, f"DROP {effect.kind.upper()} main.{quote(effect.name)}")


def _redefine(connection: apsw.Connection, effect: SchemaChanged, text: str) -> None:
    """Make the table anew, with its rows, indexes and triggers, the latter in their order."""
    before = load_table(connection, effect.name)
    dependents = _dependents(connection, effect.name)
    stores.put(connection, before, _MOVED, before.stored)
    sql.run(connection, f"DROP TABLE main.{quote(before.name)}")
    sql.run(connection, text)
    after = load_table(connection, effect.name)
    _check_defaults(connection, before, after)
    kept = [name if name in after.stored else None for name in before.stored]
    stores.take(connection, _MOVED, after, kept)
    for dependent in dependents:
        sql.run(connection, dependent)


def _check_defaults(connection: apsw.Connection, before: Table, after: Table) -> None:
    """A column that is left behind must hold nothing but its default, which the text tells."""
    left = {f"c{i}": name for i, name in enumerate(before.stored) if name not in after.stored}
    rows = sql.each(connection, f"SELECT rowid, {', '.join(left)} FROM {_MOVED}") if left else ()
    rowid = defaults.first_other(rows, before, list(left.values()))
    if rowid is not None:
        raise Misfit(f"{before.name!r} rowid {rowid}", f"defaults in {[*left.values()]}", "others")


def _dependents(connection: apsw.Connection, name: str) -> list[str]:
    """The texts of the indexes and triggers of a table or view, in the order of their making."""
    return [
        o.text
        for o in schema.objects(connection)
        if o.kind in ("index", "trigger") and fold(o.table) == fold(name)
    ]
