"""All commands in one group. Each opens a memory, makes one call and prints what came of it.

Commands that need more than the engine (replication, the demo) live in `structmem_replicator`,
which this package must not import: they are looked up by name when they are asked for.
"""

import importlib
import sys
from typing import Any, cast

import click

from structmem import StructMemError
from structmem.cli import mcp, output, reads, tables, writes
from structmem.cli.options import json_is_wanted

_ELSEWHERE = "structmem_replicator.cli"


class _Commands(click.Group):
    """Our own commands, and those of the replicator."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_commands_elsewhere()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _commands_elsewhere().get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """The outermost loop: our errors become a message and an exit code."""
        try:
            return super().invoke(ctx)
        except StructMemError as error:
            output.print_error(error, as_json=json_is_wanted(ctx))
            sys.exit(output.exit_code(error))


def _commands_elsewhere() -> dict[str, click.Command]:
    commands = cast("list[click.Command]", importlib.import_module(_ELSEWHERE).commands)
    return {str(command.name): command for command in commands}


@click.group(
    cls=_Commands,
    epilog="Exit codes: 1 the call is wrong, 2 usage, 3 try again later, 4 a person must look.",
)
@click.version_option(package_name="structmem")
def app() -> None:
    """Structured memory for AI agents: query and write it, see who changed what, take it back,
    verify, replicate."""


@app.command(
    "mcp",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    short_help="Serve memories to an agent, over standard input and output (MCP).",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _mcp(arguments: tuple[str, ...]) -> None:  # pyright: ignore[reportUnusedFunction] # click has it
    """Everything goes to the door, which has its own help and does not need this library."""
    mcp.serve(arguments)


for _command in (*reads.COMMANDS, *tables.COMMANDS, *writes.COMMANDS):
    app.add_command(_command)
