"""The pages say what is true: their code runs, their links lead somewhere, their files exist."""

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from docs import generate_errors, generate_tools
from structmem import StructuredMemory
from structmem.cli.app import app

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK: Final = re.compile(
    r"^(?:<!-- not run: ?(?P<reason>.*?) ?-->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH: Final = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|md|toml))`")


class Block(NamedTuple):
    """A fenced block of code. `reason` says why it is not run, and is None for one that is."""

    language: str
    code: str
    line: int
    reason: str | None


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(found["language"], found["code"], line, found["reason"])


def prose_of(page: Path) -> str:
    return _BLOCK.sub("", page.read_text("utf-8"))


def anchors_of(page: Path) -> set[str]:
    """The anchors of its headings: lower case, words joined by hyphens, no punctuation."""
    headings = [heading.lower() for heading in _HEADING.findall(prose_of(page))]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


PAGES_WITH_PYTHON: Final = [
    page for page in PAGES if any(block.language == "python" for block in blocks_of(page))
]


@pytest.mark.parametrize("page", PAGES_WITH_PYTHON, ids=name_of)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5: a page's blocks in order, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python" and block.reason is None:
            # Empty lines in front, so that a traceback names the line of the page.
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, page, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_not_run_is_code_and_says_why(page: Path) -> None:
    for block in blocks_of(page):
        if block.reason is not None:
            assert block.reason, f"line {block.line}: a reason is missing"
            compile(block.code, page, "exec")
    marks = page.read_text("utf-8").count("<!-- not run")
    assert marks == sum(block.reason is not None for block in blocks_of(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist_with_their_options(page: Path) -> None:
    """S4: a command line that a page shows is parsed, not run."""
    context = click.Context(app)
    for block in blocks_of(page):
        if block.language in ("console", "sh"):
            for line in block.code.splitlines():
                program, *words = shlex.split(line.removeprefix("$ "), comments=True) or [""]
                if program == "structmem":
                    _, command, arguments = app.resolve_command(context, words)
                    assert command is not None
                    command.make_context(command.name, arguments, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose_of(page)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{link}: there is no such file"
        assert not anchor or anchor in anchors_of(file), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """A path with a folder is meant from the top; a bare file name may be in any folder."""
    known = {
        path.name
        for top in ("engine", "journal", "replicator", "tests", "fuzz", "docs")
        for path in (ROOT / top).rglob("*.*")
    } | {path.name for path in ROOT.iterdir()}
    for name in _PATH.findall(prose_of(page)):
        assert (ROOT / name).exists() or name in known, f"{name}: there is no such file"


def test_the_errors_are_those_of_the_code() -> None:
    """M9"""
    written = generate_errors.PAGE.read_text("utf-8")
    assert written == generate_errors.page(), "run: make docs"


def test_the_tools_are_those_of_the_code() -> None:
    """S1"""
    written = generate_tools.PAGE.read_text("utf-8")
    assert written == generate_tools.page(), "run: make docs"


def test_every_page_can_be_reached() -> None:
    """From an index, so that nothing is written and never found."""
    indexes = [ROOT / "docs/index.md", ROOT / "docs/reference/index.md"]
    linked = {
        (index.parent / link).resolve()
        for index in indexes
        for link in _LINK.findall(prose_of(index))
    }
    missing = {*(ROOT / "docs").rglob("*.md")} - linked - {indexes[0]}
    assert not missing


METHODS: Final = [name for name in vars(StructuredMemory) if not name.startswith("_")]


@pytest.mark.parametrize("name", METHODS)
def test_a_page_of_the_reference_shows_its_method(name: str) -> None:
    """M2: the call as it is, and each parameter in the table of arguments."""
    page = ROOT / "docs/reference" / f"{name}.md"
    method = inspect.getattr_static(StructuredMemory, name)
    call, *code = blocks_of(page)
    assert call.code.strip() == f"memory.{name}{_shown_signature(method)}"
    parameters = [] if isinstance(method, property) else [*inspect.signature(method).parameters][1:]
    assert re.findall(r"^\| `(\w+)` \| [^|]", _table_of(page, "argument"), re.M) == parameters
    assert [block.language for block in code] == ["python"]


@pytest.mark.parametrize("name", METHODS)
def test_a_page_of_the_reference_names_errors_that_exist(name: str) -> None:
    """M9"""
    page = ROOT / "docs/reference" / f"{name}.md"
    named = re.findall(r"^\| `(\w+)` \|", _table_of(page, "can raise"), re.M)
    assert set(named) <= {*generate_errors.KINDS}


def test_the_reference_has_no_page_without_a_method() -> None:
    pages = {page.stem for page in (ROOT / "docs/reference").glob("*.md")}
    assert pages == {*METHODS, "index"}


def _table_of(page: Path, heading: str) -> str:
    """The table whose first column has this heading, or nothing."""
    return prose_of(page).partition(f"| {heading} |")[2].partition("\n\n")[0]


def _shown_signature(method: Any) -> str:
    """The parameters of a call with their defaults, as a page shows them."""
    if isinstance(method, property):
        return ""
    shown: list[str] = []
    for parameter in [*inspect.signature(method).parameters.values()][1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        simple = isinstance(parameter.default, int | str | tuple | None)
        default = repr(parameter.default) if simple else "…"
        required = parameter.default is parameter.empty
        shown.append(parameter.name if required else f"{parameter.name}={default}")
    return f"({', '.join(shown)})"
