"""The commands `publish`, `follow` and `demo`. `structmem` loads `commands` by this module's name.

The options that say how to connect have the names and environment variables of the `nats` command.
`publish` and `follow` print a line whenever something changes or they got further, run until SIGINT
or SIGTERM, and then exit with 0. What ends them earlier is raised, and `structmem` makes an exit
code of it, as for every command.
"""

import signal
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from structmem import InvalidCall, NotAMemory, StructuredMemory
from structmem_replicator.handles import Handle, follow, publish
from structmem_replicator.jetstream import ConnectionSettings
from structmem_replicator.progress import Status
from structmem_replicator.protocol import State

TELL_EVERY_S: Final = 1.0

F = TypeVar("F", bound=Callable[..., Any])

_MEMORY: Final = click.Path(dir_okay=False, path_type=Path)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

_with_variable: Final = partial(click.option, show_envvar=True)

_CONNECTION: Final = (
    _with_variable(
        "--server", "-s", "servers", multiple=True, envvar="NATS_URL",
        default=("nats://127.0.0.1:4222",), show_default=True, metavar="URL",
        help="A NATS server; may be given several times.",
    ),
    _with_variable(
        "--creds", "credentials", envvar="NATS_CREDS", type=_FILE,
        help="Credentials file.",
    ),
    _with_variable("--nkey", envvar="NATS_NKEY", type=_FILE, help="File with an NKey seed."),
    _with_variable("--user", envvar="NATS_USER", help="User name."),
    _with_variable("--password", envvar="NATS_PASSWORD", help="Password."),
    _with_variable("--token", envvar="NATS_TOKEN", help="Token."),
    _with_variable("--tlsca", envvar="NATS_CA", type=_FILE, help="Certificate of the authority."),
    _with_variable("--tlscert", envvar="NATS_CERT", type=_FILE, help="Certificate of this client."),
    _with_variable("--tlskey", envvar="NATS_KEY", type=_FILE, help="Private key of this client."),
    click.option("--js-domain", "domain", help="JetStream domain."),
    click.option("--js-api-prefix", "api_prefix", help="Where the JetStream API is imported."),
    click.option("--stream", help="Name of the stream.  [default: STRUCTMEM]"),
)  # fmt: skip


def _connection(command: F) -> F:
    for option in reversed(_CONNECTION):
        command = option(command)
    return command


@click.command("publish")
@click.argument("path", type=_MEMORY)
@_connection
@click.option("--replicas", type=int, help="Copies of the stream, if it is made now.")
@click.option(
    "--new-stream",
    is_flag=True,
    help="The stream is empty on purpose: publish the whole journal again.",
)
def publish_command(path: Path, servers: tuple[str, ...], new_stream: bool, **options: Any) -> None:
    """Publish the memory at PATH to a NATS server until stopped."""
    if not path.exists():  # it would be made, and a mistyped name wait for records for ever
        raise NotAMemory(f"There is no file {path}.", hint="Check the path.")
    with StructuredMemory(path) as memory:
        _run(lambda: publish(memory, servers, new_stream=new_stream, **_settings(options)))


@click.command("follow")
@click.argument("path", type=_MEMORY)
@click.option("--memory", required=True, metavar="ID_OR_LABEL", help="The memory to follow.")
@_connection
def follow_command(path: Path, memory: str, servers: tuple[str, ...], **options: Any) -> None:
    """Keep PATH a read replica of a memory until stopped."""
    _run(lambda: follow(path, servers, memory=memory, **_settings(options)))


@click.command("demo")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the memories here; otherwise nothing is left.",
)
def demo_command(directory: Path | None) -> None:
    """An agent that is killed, a replica that follows, and the proof that nothing was lost."""
    from structmem_replicator.demo import stage  # not needed, and slow, for the other commands

    try:
        stage.run(directory)
    except stage.DemoFailed as failed:
        raise click.ClickException(f"The demo failed: {failed}.") from failed


commands: list[click.Command] = [publish_command, follow_command, demo_command]


def _run(start: Callable[[], Handle]) -> None:
    """Run a handle until a signal or its end, telling what happens; raises what ended it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with start() as handle:
            _tell(handle)
    except KeyboardInterrupt:
        return
    error = handle.status().error
    if error is not None:
        raise error


def _tell(handle: Handle) -> None:
    """Print a line for each change, and how far it got whenever that moved, until it has ended.

    The status is looked at when its state or error changes, or after a second, so a line that only
    tells of a new position comes at most once a second.
    """
    status, told, told_seq, quiet = handle.status(), "", 0, True
    while not status.ended:
        line, seq = _line(status), status.position.seq
        if line is not None and (line != told or (quiet and seq != told_seq)):
            click.echo(f"{line} (at {seq})")
            told, told_seq = line, seq
        before, status = status, handle.wait_for_change(status, TELL_EVERY_S)
        quiet = (status.state, status.error) == (before.state, before.error)


def _line(status: Status) -> str | None:
    """What there is to say. Nothing about the steps on the way to where it wants to be: the error
    they still have is the one that made it connect anew, and was told then."""
    if status.state == State.CONNECTING and status.error is not None:
        return f"{status.state}: {status.error}"
    return str(status.state) if status.state in (State.PUBLISHING, State.FOLLOWING) else None


def _settings(options: dict[str, Any]) -> ConnectionSettings:
    settings = {name: value for name, value in options.items() if value is not None}
    authority, cert, key = (settings.pop(name, None) for name in ("tlsca", "tlscert", "tlskey"))
    if key and not cert:
        raise InvalidCall("--tlskey is given without --tlscert.", hint="Give both.")
    if authority or cert:
        settings["tls"] = _tls(authority, cert, key)
    return ConnectionSettings(**settings)


def _tls(authority: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    using = authority
    try:
        context = ssl.create_default_context(cafile=authority)
        if cert:
            using = f"{cert} with {key}" if key else cert
            context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidCall(
            f"TLS cannot use {using}: {error}.",
            hint="--tlsca and --tlscert name certificates in PEM, --tlskey the key of --tlscert.",
        ) from error
    return context
