"""What users of the packages may rely on: the names in `__all__`, each with its description."""

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FACES = ["structmem_journal"]


def sort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def source_of(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text("utf-8"))


def origins(face: ModuleType) -> dict[str, ModuleType]:
    """The module in which each imported name of a face was made."""
    return {
        alias.asname or alias.name: importlib.import_module(str(node.module))
        for node in source_of(face).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


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
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
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
        if not code.__doc__
    ]
    assert not silent
