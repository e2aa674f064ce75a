"""The commands `publish` and `follow`. `structmem` loads `commands` by this module's name.

The options that say how to connect have the names and environment variables of the `nats` command.
A line is printed whenever something changes. The commands run until SIGINT or SIGTERM.

Exit codes: 0 stopped by a signal; 1 stopped by something that a person must look at (fenced,
diverged, an unsafe stream …); 2 called wrongly.
"""

import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from structmem import StructuredMemory
from structmem.errors import InvalidCall, StructMemError

from structmem_replicator.handles import Handle, follow, publish
from structmem_replicator.jetstream import ConnectionSettings
from structmem_replicator.progress import Status
from structmem_replicator.protocol import State

F = TypeVar("F", bound=Callable[..., Any])

EXIT_STOP: Final = 1
EXIT_INVALID_CALL: Final = 2

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

_CONNECTION: Final = (
    click.option(
        "--server", "-s", "servers", multiple=True, envvar="NATS_URL",
        default=("nats://127.0.0.1:4222",), show_default=True, metavar="URL",
        help="A NATS server; may be given several times.",
    ),
    click.option(
        "--creds", "credentials", type=_FILE, envvar="NATS_CREDS", help="Credentials file."
    ),
    click.option("--nkey", type=_FILE, envvar="NATS_NKEY", help="File with an NKey seed."),
    click.option("--user", envvar="NATS_USER", help="User name."),
    click.option("--password", envvar="NATS_PASSWORD", help="Password."),
    click.option("--token", envvar="NATS_TOKEN", help="Token."),
    click.option("--tlsca", type=_FILE, envvar="NATS_CA", help="Certificate of the authority."),
    click.option("--tlscert", type=_FILE, envvar="NATS_CERT", help="Certificate of this client."),
    click.option("--tlskey", type=_FILE, envvar="NATS_KEY", help="Private key of this client."),
    click.option("--js-domain", "domain", help="JetStream domain."),
    click.option("--js-api-prefix", "api_prefix", help="Where the JetStream API is imported."),
    click.option("--stream", help="Name of the stream.  [default: STRUCTMEM]"),
)  # fmt: skip


def _connection(command: F) -> F:
    for option in reversed(_CONNECTION):
        command = option(command)
    return command


@click.command("publish")
@click.argument("path", type=_FILE)
@_connection
@click.option("--replicas", type=int, help="Copies of the stream, if it is made now.")
@click.option(
    "--new-stream",
    is_flag=True,
    help="The stream is empty on purpose: publish the whole journal again.",
)
def publish_command(path: Path, servers: tuple[str, ...], new_stream: bool, **options: Any) -> None:
    """Publish the memory at PATH to a NATS server until stopped."""
    with StructuredMemory(path) as memory:
        _run(lambda: publish(memory, servers, new_stream=new_stream, **_settings(options)))


@click.command("follow")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--memory", required=True, metavar="ID_OR_LABEL", help="The memory to follow.")
@_connection
def follow_command(path: Path, memory: str, servers: tuple[str, ...], **options: Any) -> None:
    """Keep PATH a read replica of a memory until stopped."""
    _run(lambda: follow(path, servers, memory=memory, **_settings(options)))


commands: list[click.Command] = [publish_command, follow_command]


def _run(start: Callable[[], Handle]) -> None:
    """Run a handle until a signal or its end, telling what happens; exits with a code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with start() as handle:
            _tell(handle)
        error = handle.status().error
    except KeyboardInterrupt:
        return
    except StructMemError as refused:
        error = refused
    if error is not None:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(EXIT_INVALID_CALL if isinstance(error, InvalidCall) else EXIT_STOP)


def _tell(handle: Handle) -> None:
    """Print a line for each change until the work has ended."""
    status, told = handle.status(), ""
    while not status.ended:
        line = _line(status)
        if line is not None and line != told:
            click.echo(f"{line} (at {status.position.seq})")
            told = line
        status = handle.wait_for_change(status)


def _line(status: Status) -> str | None:
    """What there is to say; nothing about the steps on the way to where it wants to be."""
    if status.error is not None:
        return f"{status.state}: {status.error}"
    return str(status.state) if status.state in (State.PUBLISHING, State.FOLLOWING) else None


def _settings(options: dict[str, Any]) -> ConnectionSettings:
    settings = {name: value for name, value in options.items() if value is not None}
    authority, cert, key = (settings.pop(name, None) for name in ("tlsca", "tlscert", "tlskey"))
    if authority or cert:
        context = ssl.create_default_context(cafile=authority)
        if cert:
            context.load_cert_chain(cert, key)
        settings["tls"] = context
    return ConnectionSettings(**settings)
