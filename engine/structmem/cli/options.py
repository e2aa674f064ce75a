"""What several commands take, under one name everywhere: the file, parameters, how to print, and
what the journal is told about a write."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypedDict

import click

from structmem import NotAMemory, StructuredMemory

_JSON: Final = "structmem.json"

Command = Callable[..., None]

memory_path: Final = click.argument("path", type=click.Path(path_type=Path))


def _remember(context: click.Context, _option: click.Parameter, wanted: bool) -> bool:
    context.meta[_JSON] = wanted
    return wanted


json_option: Final = click.option(
    "--json", "as_json", is_flag=True, callback=_remember, help="Print JSON, for programs."
)


def json_is_wanted(context: click.Context) -> bool:
    """Whether the command that runs below `context` was given `--json`."""
    return bool(context.meta.get(_JSON))


def parameters(command: Command) -> Command:
    """`params` and `params_json`, for `inputs.read_params`."""
    command = click.option(
        "--params", "params_json", metavar="JSON", help="An array for `?`, an object for `:name`."
    )(command)
    return click.argument("params", nargs=-1)(command)


def condition(command: Command) -> Command:
    """`where`, with its parameters."""
    command = click.option(
        "--where", required=True, metavar="SQL", help="Which rows: an expression; true for all."
    )(command)
    return parameters(command)


class Noted(TypedDict):
    """What every write of the memory takes beside its own arguments."""

    reason: str | None
    call_id: str | None


@dataclass(frozen=True)
class Write:
    """One write: the memory it goes to, what the journal is told, how the result is printed."""

    path: Path
    actor: str | None
    noted: Noted
    as_json: bool

    def memory(self, *, create: bool = False) -> AbstractContextManager[StructuredMemory]:
        """The memory, open. Raises `NotAMemory` if there is none, unless it is to be made: a
        mistyped path must not leave an empty memory behind."""
        if not create and not self.path.exists():
            raise NotAMemory(
                f"There is no file {self.path}.",
                hint="Check the path. A new memory begins with create-table.",
            )
        return StructuredMemory(self.path, actor=self.actor)


def writes(command: Command) -> Command:
    """A command that writes to `path`: it is called with a `Write` in place of the options."""

    @click.option("--reason", metavar="TEXT", help="Why; kept in the journal.")
    @click.option("--actor", metavar="NAME", help="Who; kept in the journal.")
    @click.option("--call-id", metavar="ID", help="Given again, the same call is not repeated.")
    @json_option
    @wraps(command)
    def run(
        path: Path,
        reason: str | None,
        actor: str | None,
        call_id: str | None,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        noted = Noted(reason=reason, call_id=call_id)
        command(Write(path, actor, noted, as_json), **arguments)

    return run
