"""What SQL that `execute` runs may do: change rows and schema of the user's, and nothing else.

SQLite asks about each action while it compiles a statement. What has an effect at once, or is about
something that is not the user's, is refused there. Some actions are right or wrong only together:
every schema change writes the schema table, but no statement of the user's may. So the actions are
noted, and the statement is judged as a whole before it runs.
"""

from collections.abc import Iterable
from typing import Final

import apsw

from structmem.guard import SCHEMA_TABLES, TABLE_FUNCTIONS, Action, Gate, is_harmless
from structmem.identifiers import fold, is_internal

_WRITES: Final = frozenset([apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE])
_MAKES: Final = frozenset(
    [
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_CREATE_TRIGGER,
    ]
)
_DROPS: Final = frozenset(
    [
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_VIEW,
        apsw.SQLITE_DROP_TRIGGER,
    ]
)
_FREE: Final = frozenset([apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE, apsw.SQLITE_REINDEX])
PRAGMAS: Final = frozenset(["defer_foreign_keys"])
"""What it sets ends with the transaction; every other PRAGMA changes the connection or the file."""


class WriteGuard(Gate):
    """An authorizer for one statement after the other. `modules` are SQLite's own table functions,
    folded; some of them show what is not the user's."""

    def __init__(self, modules: frozenset[str]) -> None:
        super().__init__()
        self._modules = modules - TABLE_FUNCTIONS
        self.refused: Action | None = None
        self._seen: list[Action] = []

    def forget(self) -> None:
        """Begin anew with the next statement."""
        self.refused = None
        self._seen = []

    def __call__(
        self,
        code: int,
        first: str | None,
        second: str | None,
        database: str | None,
        source: str | None,
    ) -> int:
        if is_internal(source or ""):  # a trigger of ours, which notes the rows
            return apsw.SQLITE_OK
        self.look(code)
        action = Action(code, first, second)
        self._seen.append(action)
        if self._may(action, database):
            return apsw.SQLITE_OK
        if database == "temp":  # SQLite begins with the schema table that it would write
            action = Action(apsw.SQLITE_CREATE_TEMP_TABLE, first, second)
        self.refused = self.refused or action
        return apsw.SQLITE_DENY

    # -- one action ------------------------------------------------------------------------------

    def _may(self, action: Action, database: str | None) -> bool:
        first, second = fold(action.first or ""), fold(action.second or "")
        match action.code:
            case apsw.SQLITE_READ:
                return self._is_readable(first, second)
            case apsw.SQLITE_INSERT | apsw.SQLITE_UPDATE | apsw.SQLITE_DELETE:
                return self._is_writable(action.code, first, database)
            case apsw.SQLITE_FUNCTION:
                return is_harmless(second) and not is_internal(second)
            case apsw.SQLITE_ALTER_TABLE:
                return first == "main" and not is_internal(second)
            case apsw.SQLITE_PRAGMA:
                return first in PRAGMAS or (first == "quick_check" and self._alters)
            case apsw.SQLITE_DROP_TEMP_TRIGGER:  # ours go with their table
                return is_internal(first)
            case code if code in _MAKES or code in _DROPS:
                return database == "main" and not is_internal(first) and not is_internal(second)
            case code:
                return code in _FREE

    def _is_readable(self, table: str, column: str) -> bool:
        if table == "pragma_quick_check":  # so SQLite checks the rows against a new rule
            return self._alters
        if is_internal(table) or table.startswith("pragma_"):
            return False
        return table not in self._modules

    def _is_writable(self, code: int, table: str, database: str | None) -> bool:
        if database == "temp":  # renaming and dropping look through the temporary schema too
            return code != apsw.SQLITE_INSERT and table == "sqlite_temp_master"
        return not is_internal(table)

    # -- the statement as a whole ----------------------------------------------------------------

    def judge(self) -> Action | None:
        """The first action that this statement may not do as it is."""
        return next((action for action in self._seen if not self._fits(action)), None)

    def _fits(self, action: Action) -> bool:
        table, column = fold(action.first or ""), fold(action.second or "")
        if action.code == apsw.SQLITE_REINDEX:
            return self._does(_MAKES)
        if action.code == apsw.SQLITE_DROP_TEMP_TRIGGER:
            return column in self._tables_dropped()
        if table == "sqlite_sequence" and action.code in _WRITES:
            return self.rewrites_schema
        if table in SCHEMA_TABLES and action.code in _WRITES:
            return self.changes_schema
        if table in SCHEMA_TABLES and action.code == apsw.SQLITE_READ:
            return self.rewrites_schema or (self.changes_schema and column == "rowid")
        return True

    @property
    def changes_schema(self) -> bool:
        return self._does(_MAKES) or self.rewrites_schema

    @property
    def rewrites_schema(self) -> bool:
        """Whether it drops or alters something, for which SQLite reads the schema itself."""
        return self._does(_DROPS) or self._alters

    @property
    def _alters(self) -> bool:
        """Then nothing of the statement is a query of the user's."""
        return self._does([apsw.SQLITE_ALTER_TABLE])

    @property
    def changes_rows(self) -> bool:
        return self._does(_WRITES)

    def tables_remade(self) -> set[str]:
        """The tables that the statement drops or alters."""
        dropped = {a.first for a in self._seen if a.code == apsw.SQLITE_DROP_TABLE}
        altered = {a.second for a in self._seen if a.code == apsw.SQLITE_ALTER_TABLE}
        return {name for name in dropped | altered if name}

    @property
    def only_drops(self) -> bool:
        """Whether the statement changes the schema, and makes or alters nothing."""
        return self._does(_DROPS) and not self._does(_MAKES) and not self._alters

    def _tables_dropped(self) -> set[str]:
        return {fold(a.first or "") for a in self._seen if a.code == apsw.SQLITE_DROP_TABLE}

    def _does(self, codes: Iterable[int]) -> bool:
        return any(action.code in codes for action in self._seen)
