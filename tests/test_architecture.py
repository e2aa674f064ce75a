"""House rules that imports and files must keep, read from the source.

The table is the one in `docs/architecture.md`: the journal knows values and bytes and nothing else,
the engine is the only door to SQLite, the replicator uses the public faces of both.
"""

import ast
import graphlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = {
    "structmem_journal": ROOT / "journal/structmem_journal",
    "structmem": ROOT / "engine/structmem",
    "structmem_replicator": ROOT / "replicator/structmem_replicator",
}
TOP_LEVEL: Final = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "docs",
    "engine",
    "fuzz",
    "journal",
    "pyproject.toml",
    "replicator",
    "tests",
}

# What the journal may use of the standard library: nothing that reads a clock, draws at random, or
# reaches the system. A list of what is allowed, so that whatever is new has to be thought about.
PURE: Final = frozenset(
    [
        "abc",
        "bisect",
        "binascii",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "types",
        "typing",
        "zlib",
    ]
)
FILES: Final = frozenset(["io", "os", "pathlib", "shutil", "tempfile"])
IMPURE_CALLS: Final = frozenset(
    ["__import__", "breakpoint", "eval", "exec", "input", "open", "print"]
)

# What a model or a person is handed stands on the public face, as any user of the packages does.
TOOLS: Final = ("structmem.tools",)
ADAPTERS: Final = ("structmem.adapters",)
HARNESSES: Final = {
    "structmem.adapters.mcp": "msgspec",  # the protocol is spoken here, so that it starts at once
    "structmem.adapters.pydantic_ai": "pydantic_ai",
}
COMMAND_LINE: Final = ("structmem.cli", "structmem.__main__")
REPLICATION_COMMANDS: Final = ("structmem_replicator.cli", "structmem_replicator.demo")
TERMINAL: Final = frozenset(["click", "rich"])


class Import(NamedTuple):
    """`import target`, or `from target import name`, as it stands in `module`."""

    module: str
    target: str
    name: str | None
    line: int

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    @property
    def whole(self) -> str:
        """The dotted name, whether what is taken is a module or a name in one."""
        return f"{self.target}.{self.name}" if self.name else self.target

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}: {self.whole}"


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name; `__init__` stands for the package itself."""
    folder = PACKAGES[package]
    return {_dotted(package, path.relative_to(folder)): path for path in folder.rglob("*.py")}


def _dotted(package: str, path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join((package, *(part for part in parts if part != "__init__")))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
            for alias in node.names:
                yield Import(module, node.module or "", alias.name, node.lineno)


def imports(package: str) -> list[Import]:
    return [
        found
        for module, path in modules(package).items()
        for found in imports_of(module, parsed(path))
    ]


def lies_in(module: str, parents: tuple[str, ...]) -> bool:
    return any(module == parent or module.startswith(parent + ".") for parent in parents)


def is_public(found: Import) -> bool:
    """Whether it takes a public name of another package, or that package's face as a whole."""
    if found.name is None:
        return found.target == found.top
    face = importlib.import_module(found.top)
    return found.target == found.top and found.name in face.__all__


def assert_none(broken: list[Import], rule: str) -> None:
    assert not broken, rule + "\n" + "\n".join(map(str, broken))


# -- who may import whom -------------------------------------------------------------------------


def test_the_journal_is_pure() -> None:
    """ARCHITECTURE: the standard library without clock, randomness and system, and msgspec."""

    def may(found: Import) -> bool:
        pure = PURE | FILES if found.module == "structmem_journal.archive" else PURE
        return found.top in pure | {"msgspec", "structmem_journal"}

    broken = [found for found in imports("structmem_journal") if not may(found)]
    assert_none(broken, "the journal imports pure modules and msgspec")


def test_the_journal_calls_nothing_that_reaches_outside() -> None:
    for module, path in modules("structmem_journal").items():
        if module == "structmem_journal.archive":
            continue
        called = {
            node.func.id
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & IMPURE_CALLS, module


def test_the_engine_imports_the_journal_apsw_and_msgspec() -> None:
    """No network, no replicator, no harness, and only the journal's public face."""
    edge = (*TOOLS, *ADAPTERS, *COMMAND_LINE)
    core = [found for found in imports("structmem") if not lies_in(found.module, edge)]

    def may(found: Import) -> bool:
        if found.top == "structmem":
            return not lies_in(found.whole, edge)
        if found.top == "structmem_journal":
            return is_public(found)
        return found.top in sys.stdlib_module_names | {"apsw", "msgspec"}

    assert_none([found for found in core if not may(found)], "the engine's core stands alone")


def test_the_tools_stand_on_the_public_face() -> None:
    """They know no harness, and do nothing that a user of the package could not do."""
    edge = [found for found in imports("structmem") if lies_in(found.module, TOOLS)]

    def may(found: Import) -> bool:
        if found.top == "structmem":
            return lies_in(found.whole, TOOLS) or is_public(found)
        if found.top == "structmem_journal":
            return is_public(found)
        return found.top in sys.stdlib_module_names | {"msgspec"}

    assert_none([found for found in edge if not may(found)], "the tools use the public face")


def test_an_adapter_imports_the_tools_and_its_one_harness() -> None:
    """And no other adapter, so that each works without the packages of the others."""

    def may(found: Import) -> bool:
        adapter = ".".join(found.module.split(".")[:3])
        if found.top == "structmem":
            return lies_in(found.whole, (*TOOLS, adapter)) or is_public(found)
        return found.top in sys.stdlib_module_names or found.top == HARNESSES.get(adapter)

    edge = [found for found in imports("structmem") if lies_in(found.module, ADAPTERS)]
    assert_none([found for found in edge if not may(found)], "an adapter knows one harness")


def test_the_command_line_stands_on_the_public_face() -> None:
    """It does nothing that a user of the package could not do."""
    edge = [found for found in imports("structmem") if lies_in(found.module, COMMAND_LINE)]

    def may(found: Import) -> bool:
        if found.top == "structmem":
            return lies_in(found.whole, (*TOOLS, *COMMAND_LINE)) or is_public(found)
        if found.top == "structmem_journal":
            return is_public(found)
        return found.top in sys.stdlib_module_names | TERMINAL

    assert_none([found for found in edge if not may(found)], "the edge uses the public face")


def test_the_replicator_uses_the_public_faces() -> None:
    """And nats in one file, so that the protocol can be tested without a server."""

    def may(found: Import) -> bool:
        if found.top == "structmem_replicator":
            return True
        if found.top in ("structmem", "structmem_journal"):
            return is_public(found)
        if found.top == "nats":
            return found.module == "structmem_replicator.jetstream"
        if found.top in TERMINAL:
            return lies_in(found.module, REPLICATION_COMMANDS)
        return found.top in sys.stdlib_module_names | {"msgspec"}

    broken = [found for found in imports("structmem_replicator") if not may(found)]
    assert_none(broken, "the replicator uses the public faces, and nats in jetstream.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_in_a_circle(package: str) -> None:
    """A module can be read, and tested, with nothing but what stands below it."""
    known = modules(package)
    graph: dict[str, set[str]] = {module: set() for module in known}
    for found in imports(package):
        if found.top == package:
            graph[found.module].add(found.whole if found.whole in known else found.target)
    graphlib.TopologicalSorter(graph).prepare()


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["engine", "journal", "replicator", "tests", "fuzz"])
def test_every_file_says_what_it_is_for(folder: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if ast.get_docstring(parsed(path)) is None
    ]
    assert not silent


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_tells_type_checkers_that_it_is_typed(package: str) -> None:
    assert (PACKAGES[package] / "py.typed").is_file()


def test_the_top_level_holds_what_the_readme_shows() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone, so nothing tells what belongs to it")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = {path.partition("/")[0] for path in tracked.stdout.split("\0") if path}
    assert found <= TOP_LEVEL, "nothing else belongs to the top level"
