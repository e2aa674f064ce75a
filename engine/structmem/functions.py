"""SQL functions whose built-in form may run for hours in one step, in a form that does not.

SQLite looks at no clock inside a function. `instr`, `replace`, and with a second argument `trim`,
`ltrim`, `rtrim` and `unhex`, take time that grows with the product of two lengths: 17 MB against
17 MB is hours. Here it grows with their sum. The answers are those of the built-in functions (a
test compares them), except that text which is not valid UTF-8 is refused, as it is everywhere.
"""

from collections.abc import Callable

import apsw

from structmem import sql
from structmem.errors import QueryLimit

_SQLValue = int | float | str | bytes | None

# Up to this many characters Python's own strip is fast; beyond it the set decides.
_STRIP_CHARS_MAX = 64
_UNHEX_IGNORED_MAX = 64


def register(connection: apsw.Connection, longest_bytes: int) -> None:
    """Make `connection` use these functions, with results of at most `longest_bytes`."""
    texts = _Texts(longest_bytes)
    functions: list[tuple[str, int, Callable[..., _SQLValue]]] = [
        ("instr", 2, texts.instr),
        ("replace", 3, texts.replace),
        ("ltrim", 2, texts.ltrim),
        ("rtrim", 2, texts.rtrim),
        ("trim", 2, texts.trim),
        ("unhex", 2, texts.unhex),
    ]
    for name, argument_count, function in functions:
        connection.create_scalar_function(  # pyright: ignore[reportUnknownMemberType]
            name,
            function,
            argument_count,
            deterministic=True,
            # As the built-in ones: views and indexes may use them.
            flags=apsw.SQLITE_INNOCUOUS,
        )


class _Texts:
    """The functions. `_plain` is a connection that has the built-in ones, for what is easier asked
    than done again: how SQLite writes a number."""

    def __init__(self, longest_bytes: int) -> None:
        self._longest_bytes = longest_bytes
        self._plain = apsw.Connection(":memory:")

    def instr(self, value: _SQLValue, part: _SQLValue) -> _SQLValue:
        if isinstance(value, str) and isinstance(part, str):
            return value.find(part) + 1
        if value is None or part is None:
            return None
        if isinstance(value, bytes) and isinstance(part, bytes):
            return value.find(part) + 1
        return self._text(value).find(self._text(part)) + 1

    def replace(self, value: _SQLValue, old: _SQLValue, new: _SQLValue) -> _SQLValue:
        if value is None or old is None:
            return None
        text, pattern = self._text(value), self._text(old)
        if not pattern or pattern[0] == "\0":  # SQLite takes it for empty
            return text
        if new is None:
            return None
        by = self._text(new)
        growth = len(by) - len(pattern)
        if growth > 0 and len(text) + growth * text.count(pattern) > self._longest_bytes:
            raise apsw.TooBigError("string or blob too big")
        return text.replace(pattern, by)

    def trim(self, value: _SQLValue, characters: _SQLValue) -> _SQLValue:
        return self.rtrim(self.ltrim(value, characters), characters)

    def ltrim(self, value: _SQLValue, characters: _SQLValue) -> _SQLValue:
        if value is None or characters is None:
            return None
        text, unwanted = self._text(value), self._set(characters)
        if len(unwanted) <= _STRIP_CHARS_MAX:
            return text.lstrip("".join(unwanted))
        kept = (i for i, character in enumerate(text) if character not in unwanted)
        return text[next(kept, len(text)) :]

    def rtrim(self, value: _SQLValue, characters: _SQLValue) -> _SQLValue:
        if value is None or characters is None:
            return None
        text, unwanted = self._text(value), self._set(characters)
        if len(unwanted) <= _STRIP_CHARS_MAX:
            return text.rstrip("".join(unwanted))
        kept = (i for i in range(len(text), 0, -1) if text[i - 1] not in unwanted)
        return text[: next(kept, 0)]

    def unhex(self, value: _SQLValue, ignored: _SQLValue) -> _SQLValue:
        if value is None or ignored is None:
            return None
        characters = "".join(self._set(ignored))
        if len(characters) > _UNHEX_IGNORED_MAX:
            raise QueryLimit(f"unhex() can ignore at most {_UNHEX_IGNORED_MAX} characters here.")
        return self._ask("SELECT unhex(?, ?)", value, characters)

    def _set(self, characters: _SQLValue) -> frozenset[str]:
        return frozenset(self._text(characters).partition("\0")[0])  # SQLite ends it at a NUL

    def _text(self, value: _SQLValue) -> str:
        match value:
            case str():
                return value
            case bytes():
                return value.decode()
            case int():
                return str(value)
            case _:
                return str(self._ask("SELECT CAST(? AS TEXT)", value))

    def _ask(self, question: str, *values: _SQLValue) -> _SQLValue:
        row = sql.first(self._plain, question, values)
        return row[0] if row else None
