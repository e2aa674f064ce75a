"""What the user's views may cost SQLite to compile.

A view that reads another view twice takes twice as long to compile, and so on: sixteen nested ones
take minutes. No progress handler is asked while SQLite compiles, and some statements compile every
view of the file: `ALTER TABLE`, `PRAGMA table_list`. So a view beyond the bound is refused by the
operation that makes it so, be it the one that creates the view or a table that it waited for.

Rules, each with its reason:

- The bound is a count, so that the same views are refused on every machine; a clock stands behind
  it, for many views together.
- A view that does not compile for another reason, such as a table that is gone, is no concern here.
- What was beyond the bound before stays: undo, replay and older versions may have brought it, and
  operations on other tables must go on.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import apsw

from structmem import refusals, schema, sql
from structmem.bounds import Bounds, Watch, ceiling, restricted
from structmem.errors import QueryLimit, shown
from structmem.identifiers import quote
from structmem.limits import VDBE_OP_MAX, VIEW_SELECTS_MAX, VIEWS_S

_HINT = "Keep what it selects in a table, or nest fewer views that read one another twice."


def check(before: apsw.Connection, after: apsw.Connection, bounds: Bounds, watch: Watch) -> None:
    """Raise `QueryLimit` for a view that is beyond the bound in `after` and was not in `before`, or
    when `watch` ends what takes too long of those that are new. The connections are in use by
    nobody else, and have no authorizer."""
    views = list(_views(after))
    if not views:
        return
    stood = set(_views(before))
    new = sorted(o.name for o in views if o not in stood)
    for name, why in _beyond(after, new, bounds, watch):
        raise _too_much(name, why)
    _check_stood(before, after, [o.name for o in views if o in stood], bounds)


def _views(connection: apsw.Connection) -> Iterator[schema.SchemaObject]:
    return (o for o in schema.objects(connection) if o.kind == "view")


def _check_stood(
    before: apsw.Connection, after: apsw.Connection, names: Iterable[str], bounds: Bounds
) -> None:
    """What views became that were there: a new table can be what one of them waited for. Where that
    takes long, they took as long before, and nothing is refused for it."""
    watch = Watch(VIEWS_S, bounds)
    worse: list[tuple[str, str]] = []
    with suppress(QueryLimit):  # the watch's
        beyond = dict(_beyond(after, names, bounds, watch))
        known = dict(_beyond(before, beyond, bounds, watch))
        worse += [(name, why) for name, why in beyond.items() if name not in known]
    for name, why in worse:
        raise _too_much(name, why)


def _too_much(name: str, why: str) -> QueryLimit:
    return QueryLimit(
        f"The view {shown(name)} is too long or too deeply nested: {why}.", hint=_HINT
    )


def _beyond(
    connection: apsw.Connection, names: Iterable[str], bounds: Bounds, watch: Watch
) -> Iterator[tuple[str, str]]:
    """Those of these views that are beyond the bound, each with the reason."""
    count = _Count(watch)
    with ceiling.held(bounds), restricted(connection, bounds):
        connection.authorizer = count
        try:
            for name in names:
                watch.look()
                why = _reason(connection, name, count)
                if why is not None:
                    yield name, why
        finally:
            connection.authorizer = None


def _reason(connection: apsw.Connection, name: str, count: "_Count") -> str | None:
    count.selects = 0
    try:
        next(sql.compiled(connection, f"SELECT * FROM main.{quote(name)}"))
    except _TooMany:
        return f"it compiles to more than {VIEW_SELECTS_MAX:,} SELECTs"
    except apsw.NoMemError:
        return f"it compiles to more than {VDBE_OP_MAX:,} steps"
    except apsw.SQLError as error:
        return str(error) if refusals.is_beyond_limit(str(error)) else None
    except apsw.Error:
        return None
    return None


class _TooMany(Exception):
    """Ends a compilation from within."""


class _Count:
    """An authorizer that counts the SELECTs of a statement and ends it at the bound."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.selects = 0

    def __call__(self, code: int, *_names: str | None) -> int:
        if code == apsw.SQLITE_SELECT:
            self._watch.look()
            self.selects += 1
            if self.selects > VIEW_SELECTS_MAX:
                raise _TooMany
        return apsw.SQLITE_OK
