"""Write `errors.md` from the code: every kind of error, and every place that makes one.

The code is read, never run: a refusal is a call of one of the classes in `errors.py`, wherever it
stands in the engine. Its message and hint are shown as they are written, with `{name}` for what is
only known when it happens.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from structmem import errors

PAGE: Final = Path(__file__).with_name("errors.md")
ENGINE: Final = Path(inspect.getfile(errors)).parent
KINDS: Final = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.StructMemError)
}

_INTRODUCTION: Final = """\
# Errors

Written from the code by `make docs`; a test fails when the two differ.

Every error is a `StructMemError` with a `message`, a `hint` (or None), and a `code` that stays as
it is. Its kind says what the caller does next. After any of them the memory is as it was before the
call; where that is not so, the message says it.

## Kinds

| class | code | what to do | |
|---|---|---|---|
"""
_REFUSALS: Final = """
## Messages

Each place in the engine that makes an error. What stands in braces is known when it happens.
"""
_TO_DO: Final = {
    errors.InvalidCall: "change the call",
    errors.Unavailable: "call again later",
    errors.Stop: "have a person look",
}


class Refusal(NamedTuple):
    """One place that makes an error."""

    code: str
    message: str
    hint: str
    module: str


def page() -> str:
    """The whole page."""
    found = sorted({*refusals()})
    parts = [_INTRODUCTION, *map(_kind_row, KINDS.values()), _REFUSALS]
    for code in dict.fromkeys(kind.code for kind in KINDS.values()):
        own = [refusal for refusal in found if refusal.code == code]
        if own:
            parts += [f"\n### {code}\n\n| message | hint | in |\n|---|---|---|\n"]
            parts += [_refusal_row(refusal) for refusal in own]
    return "".join(parts)


def refusals() -> Iterator[Refusal]:
    for path in sorted(ENGINE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        yield from _Module(tree, _dotted(path)).refusals()


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ENGINE).with_suffix("").parts)


def _kind_row(kind: type[errors.StructMemError]) -> str:
    to_do = next((what for base, what in _TO_DO.items() if issubclass(kind, base)), "")
    description = " ".join((kind.__doc__ or "").split())
    return f"| `{kind.__name__}` | `{kind.code}` | {to_do} | {description} |\n"


def _refusal_row(refusal: Refusal) -> str:
    hint = _cell(refusal.hint) if refusal.hint else ""
    return f"| {_cell(refusal.message)} | {hint} | `{refusal.module}` |\n"


def _cell(text: str) -> str:
    """`text` for a table: what Markdown would take for its own is escaped."""
    for special in "\\*_<>|[]":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.split())


class _Module:
    """The refusals of one module. Names are looked up where they are used: in the function around,
    then among the module's constants."""

    def __init__(self, tree: ast.Module, name: str) -> None:
        self._name = name
        self._functions = _functions_of(tree)
        self._tree = tree

    def refusals(self) -> Iterator[Refusal]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                kind = KINDS.get(node.func.id)
                if kind is not None and node.args:
                    yield self._refusal(kind.code, node)

    def _refusal(self, code: str, call: ast.Call) -> Refusal:
        hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
        hint = self._text(hints[0], call.lineno) if hints else ""
        return Refusal(code, self._text(call.args[0], call.lineno), hint, self._name)

    def _text(self, node: ast.expr, line: int) -> str:
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Constant():
                return ""
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part, line) for part in parts)
            case ast.FormattedValue(value=value):
                return self._placeholder(value, line)
            case ast.IfExp(body=body, orelse=orelse):
                either = [self._text(body, line), self._text(orelse, line)]
                return " / ".join(text for text in either if text)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left, line) + self._text(right, line)
            case ast.BoolOp(values=values):
                return " / ".join(text for text in (self._text(v, line) for v in values) if text)
            case ast.Call(func=ast.Attribute(attr="get"), args=[_, default]):
                return self._text(default, line)
            case ast.Name(id=name):
                assigned = self._assigned(name, line)
                return f"{{{name}}}" if assigned is None else self._text(assigned, line)
            case _:
                return f"{{{_readable(node)}}}"

    def _placeholder(self, value: ast.expr, line: int) -> str:
        """A value in a text: a text of the code's own is put in its place, else its name is."""
        if isinstance(value, ast.Name):
            assigned = self._assigned(value.id, line)
            if isinstance(assigned, ast.JoinedStr | ast.IfExp):
                return self._text(assigned, line)
        return f"{{{_readable(value)}}}"

    def _assigned(self, name: str, line: int) -> ast.expr | None:
        """What was last assigned to `name` before `line`, in the same function or the module."""
        inside = [f for f in self._functions if f.lineno <= line <= (f.end_lineno or 0)]
        found: ast.expr | None = None
        for scope in (self._tree.body, inside[-1].body if inside else []):
            for node in _assignments(scope):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if ast.unparse(target) == name and node.lineno < line and node.value is not None:
                    found = node.value
        return found


def _functions_of(tree: ast.Module) -> list[ast.FunctionDef]:
    """Every function, each after the one that it stands in."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sorted(found, key=lambda function: function.lineno)


def _assignments(body: list[ast.stmt]) -> Iterator[ast.Assign | ast.AnnAssign]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                yield node


def _readable(node: ast.expr) -> str:
    """A word or two for a value: what is done to it only to show it is left away."""
    match node:
        case ast.Name(id=name):
            return name.strip("_").lower()
        case ast.Attribute(value=value, attr="name" | "__name__" | "message" | "text"):
            return _readable(value)
        case ast.Attribute(attr=attribute):
            return attribute.strip("_").lower()
        case ast.Subscript(value=value):
            return _readable(value)
        case ast.Call(func=ast.Attribute(attr="join"), args=[names]):
            return _readable(names)
        case ast.Call(func=ast.Name(id="len"), args=[value, *_]):
            return f"number of {_readable(value)}"
        case ast.Call(func=ast.Name(id="type"), args=[value, *_]):
            return f"type of {_readable(value)}"
        case ast.Call(args=[*_, value]):
            return _readable(value)
        case ast.Call(func=function):
            return _readable(function)
        case ast.GeneratorExp(elt=element):
            return _readable(element)
        case ast.BinOp(left=left):
            return _readable(left)
        case _:
            return ast.unparse(node)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
