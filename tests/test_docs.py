"""The pages say what is true: their code runs, their links lead somewhere, their files exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest

from docs import generate_errors
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


def test_every_page_can_be_reached() -> None:
    """From the index, so that nothing is written and never found."""
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(prose_of(index))}
    missing = {*(ROOT / "docs").rglob("*.md")} - linked - {index}
    assert not missing
