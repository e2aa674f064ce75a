"""What users of the packages may rely on: the names in `__all__`, each with its description."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import structmem

FACES = ["structmem_journal", "structmem", "structmem_replicator"]

# The names of the memory's methods are fixed by its contract; these are the ones there are so far.
METHODS = {
    "acting_as",
    "actor",
    "add_column",
    "apply",
    "close",
    "create_index",
    "create_table",
    "delete",
    "describe",
    "destroy",
    "drop_index",
    "drop_table",
    "execute",
    "history",
    "id",
    "insert",
    "log",
    "on_commit",
    "path",
    "position",
    "preview",
    "query",
    "records",
    "redo",
    "rehearsal",
    "revert_to",
    "size",
    "undo",
    "update",
    "verify",
}
# What the replicator needs beside them, because it stands on the public face like everyone.
METHODS_FOR_REPLICATORS = {"bookmark", "epoch", "label", "position_at", "role"}
WRITES = [
    "add_column",
    "create_index",
    "create_table",
    "delete",
    "drop_index",
    "drop_table",
    "execute",
    "insert",
    "redo",
    "revert_to",
    "undo",
    "update",
]

FIELDS = {
    "Column": [
        "name",
        "type",
        "primary_key",
        "not_null",
        "unique",
        "default",
        "description",
        "references",
    ],
    "Operation": [
        "op_id",
        "operation",
        "table",
        "reason",
        "rows_changed",
        "at",
        "actor",
        "approved_by",
        "call_id",
    ],
    "Position": ["seq", "digest"],
    "Preview": ["operation", "table", "rows_matched", "columns", "sample", "token"],
    "QueryResult": ["columns", "rows", "truncated"],
    "Size": ["tables", "journal", "hidden", "free", "overhead", "file", "write_ahead_log"],
    "WriteResult": [
        "op_id",
        "position",
        "rows_changed",
        "rowids",
        "warnings",
        "repeated",
        "operations",
    ],
    "Touched": ["inserted", "updated", "deleted"],
}

# Codes, which are for programs and stay as they are. The class of `no_such_table` is `NoSuchTable`.
ERRORS = {
    "invalid_call": [
        "call_id_reused",
        "cannot_undo",
        "condition_refused",
        "constraint_failed",
        "no_such_column",
        "no_such_table",
        "not_granted",
        "preview_outdated",
        "nothing_to_undo",
        "query_limit",
        "read_only",
        "table_exists",
        "write_in_query",
    ],
    "unavailable": ["busy", "full", "stream_unavailable"],
    "stop": [
        "diverged",
        "fenced",
        "forked_process",
        "format_too_new",
        "not_a_memory",
        "verification_failed",
    ],
}

APPROVALS = ["approval_timed_out", "approval_void", "declined", "nobody_to_ask"]


def sort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def source_of(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text("utf-8"))


def origins(face: ModuleType) -> dict[str, ModuleType]:
    """The module in which each imported name of a face was made."""
    return {
        alias.asname or alias.name: importlib.import_module(str(node.module))
        for node in imports_of(face)
        if node.module != "typing"
        for alias in node.names
    }


def imports_of(face: ModuleType) -> list[ast.ImportFrom]:
    """Those that a reader and a type checker see: of `if TYPE_CHECKING` the first branch."""
    body = [
        inner
        for node in source_of(face).body
        for inner in (node.body if isinstance(node, ast.If) else [node])
    ]
    return [node for node in body if isinstance(node, ast.ImportFrom)]


def documented_names(module: ModuleType) -> set[str]:
    """The constants of a module that are followed by a string that describes them.

    One string may stand after several assignments in a row, and then describes them all.
    """
    found: set[str] = set()
    waiting: set[str] = set()
    for node in source_of(module).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            waiting.add(node.target.id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found |= waiting
            waiting = set()
        else:
            waiting = set()
    return found


def is_described(name: str, value: Any, origin: ModuleType) -> bool:
    if inspect.isclass(value) or inspect.isfunction(value):
        return bool(value.__doc__)
    return name in documented_names(origin)


def members(value: type) -> dict[str, Any]:
    """The public methods and properties that a class defines itself."""
    return {
        name: member
        for name, member in vars(value).items()
        if not name.startswith("_") and _is_code(member)
    }


def _is_code(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)


@pytest.mark.parametrize("package", FACES)
def test_a_face_is_imports_and_all(package: str) -> None:
    """Nothing is computed when a package is imported, and nothing is public by accident."""
    face = importlib.import_module(package)
    docstring, *rest = source_of(face).body
    assert isinstance(docstring, ast.Expr)
    *imports, listing = rest
    for node in imports:
        inner = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node]
        assert all(isinstance(each, ast.ImportFrom) for each in inner)
    assert isinstance(listing, ast.Assign) and ast.unparse(listing.targets[0]) == "__all__"


@pytest.mark.parametrize("package", FACES)
def test_all_is_complete_and_sorted(package: str) -> None:
    face = importlib.import_module(package)
    assert set(face.__all__) == set(origins(face))
    assert face.__all__ == sorted(face.__all__, key=sort_key)


@pytest.mark.parametrize("package", FACES)
def test_every_public_name_is_described(package: str) -> None:
    face = importlib.import_module(package)
    made_in = origins(face)
    silent = [n for n in face.__all__ if not is_described(n, getattr(face, n), made_in[n])]
    assert not silent


@pytest.mark.parametrize("package", FACES)
def test_every_public_method_is_described(package: str) -> None:
    face = importlib.import_module(package)
    silent = [
        f"{name}.{member}"
        for name in face.__all__
        if inspect.isclass(value := getattr(face, name))
        for member, code in members(value).items()
        if not inspect.getdoc(code)
    ]
    assert not silent


# -- the contract of `structmem` -----------------------------------------------------------------


def test_the_memory_has_the_methods_of_its_contract() -> None:
    """M2: names are fixed, so one more is a decision and one less a broken promise."""
    assert set(members(structmem.StructuredMemory)) == METHODS | METHODS_FOR_REPLICATORS


@pytest.mark.parametrize("name", WRITES)
def test_every_write_takes_a_reason_and_a_call_id(name: str) -> None:
    """M8"""
    parameters = inspect.signature(getattr(structmem.StructuredMemory, name)).parameters
    for keyword in ("reason", "call_id"):
        assert parameters[keyword].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[keyword].default is None


@pytest.mark.parametrize("name", FIELDS)
def test_values_have_the_fields_of_their_contract(name: str) -> None:
    assert list(getattr(structmem, name).__struct_fields__) == FIELDS[name]


@pytest.mark.parametrize("parent", ERRORS)
def test_errors_are_sorted_by_what_the_caller_does_next(parent: str) -> None:
    """M9"""
    assert error_of(parent).__base__ is structmem.StructMemError
    assert [error_of(code).__base__ for code in ERRORS[parent]] == [error_of(parent)] * len(
        ERRORS[parent]
    )


def test_what_came_of_an_approval_is_told_apart() -> None:
    """S2: declined, nobody to ask, no answer and not for this call are all "not granted"."""
    assert {error_of(code).__base__ for code in APPROVALS} == {structmem.NotGranted}


def test_every_error_is_in_the_contract_under_its_code() -> None:
    """M9: an error that nobody listed is one that nobody knows how to answer."""
    codes = {
        error.code for name in structmem.__all__ if is_error(error := getattr(structmem, name))
    }
    listed = {code for kinds in (*ERRORS.values(), APPROVALS) for code in kinds}
    assert codes == {"struct_mem_error", *ERRORS, *listed}


def error_of(code: str) -> type[structmem.StructMemError]:
    return getattr(structmem, code.title().replace("_", ""))


def is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, structmem.StructMemError)


def test_what_is_looked_up_late_is_what_a_type_checker_sees() -> None:
    """`late` and the branch for type checkers name the same things, from the same modules."""
    seen = {
        alias.name: str(node.module)
        for block in source_of(structmem).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == vars(importlib.import_module("structmem.late"))["_HOMES"]


@pytest.mark.parametrize(
    "use", ["structmem", "structmem.tools; structmem.tools.tool_definitions({'insert': 'ask'})"]
)
def test_the_face_and_the_tools_load_neither_sqlite_nor_asyncio(use: str) -> None:
    """A server that must answer its first message at once imports them, and tells of its tools."""
    code = f"import sys, {use}; print({{'apsw', 'asyncio', 'nats'}} & {{*sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
