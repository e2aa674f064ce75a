"""The stream on NATS JetStream. The only file that knows nats-py.

Requests to the JetStream API go out as plain NATS requests with typed bodies. What nats-py does by
default, and why it is not used:

- *Its reconnecting*: its buffer publishes after we gave up, in the middle of somebody else's term.
  Here a lost connection stays lost until `connect` makes a new one, from scratch.
- *Its consumers*: the ordered one takes 4 s to notice that it is dead, is silent when the stream
  went back, and opens itself again where nobody can check. The reader here is a plain pull.
- *Its error callback* prints stack traces to stderr. Ours keeps the last complaint and puts it into
  the error of the call that failed: a violation of permissions is otherwise a mere timeout.
- *`Nats-Msg-Id`*: after a purge the server acks the same id as a duplicate and stores nothing.

Invariants:

- Every request goes to the connection of the current generation and ends, as undecided or
  unreachable, as soon as that connection is lost.
- No message larger than the limit is handed to nats-py: the server would close the connection.
- A connection is used only after the stream's settings were checked on it.
"""

import asyncio
import contextlib
import importlib.util
import re
import secrets
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import urlsplit

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from structmem import InvalidCall
from structmem_replicator import jetstream_api as api
from structmem_replicator.errors import NotStored, ReaderLost, Undecided, Unreachable
from structmem_replicator.pacing import wait_at_most
from structmem_replicator.subjects import STREAM
from structmem_replicator.transport import EXPECTED_HEADER, Message, message_bytes

REQUEST_TIMEOUT_S: Final = 5.0
"""A cluster without a leader answers after 4-7 s or not at all; waiting longer tells no more."""

CLOSE_TIMEOUT_S: Final = 1.0

PING_INTERVAL_S: Final = 3
PINGS_OUTSTANDING_MAX: Final = 2
"""A peer that went away without a word is noticed after three intervals."""

HEARTBEAT_S: Final = 1.0
SILENCE_MAX_S: Final = 2.5 * HEARTBEAT_S
"""A reader that hears neither message nor heartbeat for so long is given up."""

PULL_MESSAGES: Final = 256
PULL_BYTES: Final = 4 << 20
PULL_EXPIRES_S: Final = 30.0
"""What a reader asks for at a time; the bytes bound what can wait in this process."""

READER_INACTIVE_S: Final = 60.0
"""The server removes a reader that has not asked for so long, so dead ones do not pile up."""

STREAM_CHARACTERS_MAX: Final = 255
_STREAM_NAME: Final = re.compile(rf"[^\s\x00-\x1f\x7f.*>/\\]{{1,{STREAM_CHARACTERS_MAX}}}")
"""What the server takes as a name: it becomes a part of subjects and of a path."""

_PULL_IS_OVER: Final = ("404", "408")
_HEARTBEAT: Final = "100"


class ConnectionSettings(TypedDict, total=False):
    """How to connect, in the words of NATS.

    `credentials`: path of a `.creds` file. `nkey`: path of a seed file; `nkey_seed`: the seed
    itself. `domain`: JetStream domain; `api_prefix`: where the JetStream API is imported if not at
    `$JS.API`. `stream`: the stream's name; `replicas`: copies kept of it if it is made here.
    """

    credentials: str | Path
    nkey: str | Path
    nkey_seed: str
    token: str
    user: str
    password: str
    tls: ssl.SSLContext
    tls_hostname: str
    inbox_prefix: str
    domain: str
    api_prefix: str
    stream: str
    replicas: int


_NATS_NAMES: Final = {
    "credentials": "user_credentials",
    "nkey": "nkeys_seed",
    "nkey_seed": "nkeys_seed_str",
    "token": "token",
    "user": "user",
    "password": "password",
    "tls": "tls",
    "tls_hostname": "tls_hostname",
    "inbox_prefix": "inbox_prefix",
}
"""Our name of a setting, and that of nats-py."""

_FILES: Final = ("credentials", "nkey")
_NEED_NKEYS: Final = ("credentials", "nkey", "nkey_seed")


class JetStreamTransport:
    """A `Transport` over NATS JetStream.

    `servers` is a URL or several, also with commas between them. With `create` a missing stream is
    made, without it is waited for, and `missing_hint` says in the error what to do about it. Raises
    `InvalidCall` for settings that cannot be.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        settings: ConnectionSettings | None = None,
        *,
        create: bool,
        missing_hint: str | None = None,
    ) -> None:
        settings = settings or {}
        _check(settings)
        given = [servers] if isinstance(servers, str) else servers
        self._servers = [url.strip() for urls in given for url in urls.split(",") if url.strip()]
        if not self._servers:
            raise InvalidCall("No server is given.", hint="Pass a URL such as nats://host:4222.")
        for url in self._servers:
            _check_url(url)
        self._options = _client_options(settings)
        self._stream = settings.get("stream", STREAM)
        self._replicas = settings.get("replicas", 1)
        self._api = _api_prefix(settings)
        self._create = create
        self._missing_hint = missing_hint
        self._connecting = asyncio.Lock()
        self._client: Client | None = None
        self._lost: asyncio.Future[None] | None = None
        self._connections = 0
        self._discovered: list[str] = []
        self._complaint = ""
        self._max_msg_size = -1

    # -- connection ----------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        return self._connections if self._is_connected() else 0

    @property
    def message_bytes_max(self) -> int:
        payload_max = self._client.max_payload if self._client else 0
        return min(payload_max, self._max_msg_size) if self._max_msg_size >= 0 else payload_max

    async def connect(self) -> int:
        async with self._connecting:
            if not self._is_connected():
                await self.close()
                await self._open()
            return self._connections

    async def close(self) -> None:
        client, self._client = self._client, None
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        if client is not None:
            await _close(client)

    def _is_connected(self) -> bool:
        # nats-py is asked too: when its closing fails, it tells nobody that it has closed.
        client, lost = self._client, self._lost
        return client is not None and client.is_connected and lost is not None and not lost.done()

    async def _open(self) -> None:
        lost = asyncio.get_running_loop().create_future()
        client = await self._new_client(lost)
        self._client, self._lost = client, lost
        try:
            await self._check_stream()
        except BaseException:
            await self.close()
            raise
        self._discovered = [url.geturl() for url in client.discovered_servers]
        self._connections += 1

    async def _new_client(self, lost: asyncio.Future[None]) -> Client:
        """A client that is connected, and sets `lost` as soon as it no longer is."""

        async def on_closed() -> None:
            if not lost.done():
                lost.set_result(None)

        client = Client()
        self._complaint = ""
        try:
            await client.connect(
                servers=self._servers + self._discovered,
                error_cb=self._on_error,
                closed_cb=on_closed,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                pending_size=0,
                ping_interval=PING_INTERVAL_S,
                max_outstanding_pings=PINGS_OUTSTANDING_MAX,
                **self._options,
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await _close(client)
            raise Unreachable(
                f"No connection to {self._names()}: {self._complaint or error}.",
                hint=_hint(error),
            ) from error
        return client

    async def _check_stream(self) -> None:
        info = await self._ask(f"STREAM.INFO.{self._stream}", b"", api.StreamInfo)
        if info.error is not None and info.error.err_code == api.NO_STREAM and self._create:
            info = await self._make_stream()
        if info.error is not None:
            raise Unreachable(
                f"Stream {self._stream!r} at {self._names()}: {info.error.description}.",
                hint=self._missing_hint if info.error.err_code == api.NO_STREAM else None,
            )
        api.check_settings(info.config)
        self._max_msg_size = info.config.max_msg_size

    async def _make_stream(self) -> api.StreamInfo:
        body = msgspec.json.encode(api.CreateRequest(self._stream, self._replicas))
        made = await self._ask(f"STREAM.CREATE.{self._stream}", body, api.StreamInfo)
        if made.error is not None and made.error.err_code == api.NAME_IN_USE:
            # Somebody else made it, with settings of their own, since we asked.
            return await self._ask(f"STREAM.INFO.{self._stream}", b"", api.StreamInfo)
        return made

    async def _on_error(self, error: Exception) -> None:
        self._complaint = str(error) or repr(error)

    def _names(self) -> str:
        return ", ".join(_name(server) for server in self._servers)

    # -- publishing ----------------------------------------------------------------------------

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], *, expected: int
    ) -> int:
        client = self._client
        if client is None or not self._is_connected():
            raise NotStored(f"There is no connection to {self._names()}.")
        size = message_bytes(len(data), headers, expected=expected)
        if size > self.message_bytes_max:
            raise NotStored(f"The message has {size} bytes of {self.message_bytes_max}.")
        try:
            reply = await self._request(
                client, subject, data, {**headers, EXPECTED_HEADER: str(expected)}
            )
        except nats.errors.NoRespondersError as error:
            raise NotStored(f"No stream takes {subject}.") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise Undecided(f"{subject}: {self._why(error)}.") from error
        try:
            ack = api.decode_answer(api.Ack, reply.data)
        except Unreachable as error:
            raise Undecided(f"{subject}: {error}") from error
        if ack.error is not None:
            raise api.publish_error(ack.error, subject)
        return ack.seq

    # -- looking -------------------------------------------------------------------------------

    async def last(self, subject: str) -> Message | None:
        return await self._get(api.GetRequest(last_by_subj=subject))

    async def read(self, sequence: int) -> Message | None:
        return await self._get(api.GetRequest(seq=sequence))

    async def next(self, subject: str, sequence: int) -> Message | None:
        return await self._get(api.GetRequest(seq=max(1, sequence), next_by_subj=subject))

    async def subjects(self, pattern: str) -> list[str]:
        found: set[str] = set()
        while True:
            request = api.SubjectsRequest(pattern, offset=len(found))
            info = await self._ask(
                f"STREAM.INFO.{self._stream}", msgspec.json.encode(request), api.StreamInfo
            )
            self._raise(info)
            page = info.state.subjects or {}
            found |= page.keys()
            if not page or len(found) >= info.total:
                return sorted(found)

    async def reader(self, subject: str, sequence: int) -> "JetStreamReader":
        if self._client is None or self._lost is None:
            raise Unreachable(f"There is no connection to {self._names()}.")
        name = secrets.token_hex(8)
        config = api.ConsumerConfig(
            name=name,
            filter_subject=subject,
            opt_start_seq=max(1, sequence),
            inactive_threshold=round(READER_INACTIVE_S * api.NANOSECONDS),
        )
        created = await self._ask(
            f"CONSUMER.CREATE.{self._stream}.{name}.{subject}",
            msgspec.json.encode(api.ConsumerRequest(self._stream, config)),
            api.Answer,
        )
        self._raise(created)
        reader = JetStreamReader(
            self._client,
            self._lost,
            pull_subject=f"{self._api}.CONSUMER.MSG.NEXT.{self._stream}.{name}",
            delete_subject=f"{self._api}.CONSUMER.DELETE.{self._stream}.{name}",
            # A pull never gets a message larger than its bytes.
            pull_bytes=max(PULL_BYTES, 2 * self.message_bytes_max),
        )
        await reader.open()
        return reader

    async def _get(self, request: api.GetRequest) -> Message | None:
        got = await self._ask(
            f"STREAM.MSG.GET.{self._stream}", msgspec.json.encode(request), api.Got
        )
        if got.error is not None and got.error.err_code == api.NO_MESSAGE:
            return None
        self._raise(got)
        return None if got.message is None else got.message.message()

    async def _ask(self, what: str, body: bytes, kind: type[api.T]) -> api.T:
        """Ask the API. An error in the answer is left to the caller."""
        client = self._client
        if client is None:
            raise Unreachable(f"There is no connection to {self._names()}.")
        try:
            reply = await self._request(client, f"{self._api}.{what}", body, None)
        except nats.errors.NoRespondersError as error:
            raise Unreachable(f"No JetStream answers at {self._names()}.") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise Unreachable(f"{what}: {self._why(error)}.") from error
        return api.decode_answer(kind, reply.data)

    def _raise(self, answer: api.Answer) -> None:
        if answer.error is not None:
            raise Unreachable(f"Stream {self._stream!r}: {answer.error.description}.")

    async def _request(
        self, client: Client, subject: str, body: bytes, headers: dict[str, Any] | None
    ) -> Msg:
        """One request on one connection; ends early when that connection is lost."""
        assert self._lost is not None
        self._complaint = ""
        request = asyncio.ensure_future(
            client.request(subject, body, timeout=REQUEST_TIMEOUT_S, headers=headers)
        )
        try:
            await asyncio.wait((request, self._lost), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            request.cancel()
            raise
        if not request.done():
            request.cancel()
            raise nats.errors.ConnectionClosedError
        return request.result()

    def _why(self, error: BaseException) -> str:
        if not self._is_connected():
            return "the connection was lost"
        if self._complaint:
            return f"the server says {self._complaint}"
        return (
            f"no answer in {REQUEST_TIMEOUT_S:g} s"
            if isinstance(error, TimeoutError)
            else f"{error}"
        )


class JetStreamReader:
    """A `Reader` on a pull consumer of its own: ephemeral, without acks, in the server's memory.

    Invariants:

    - At most one pull is open, and it bounds what can be waiting here.
    - The consumer numbers what it delivers; a number missing means that a message was lost on the
      way, and the reader is given up rather than skipping it.
    """

    def __init__(
        self,
        client: Client,
        lost: asyncio.Future[None],
        *,
        pull_subject: str,
        delete_subject: str,
        pull_bytes: int,
    ) -> None:
        self._client, self._lost = client, lost
        self._pull_subject, self._delete_subject = pull_subject, delete_subject
        self._pull_bytes = pull_bytes
        self._waiting: deque[Msg] = deque()
        self._arrived = asyncio.Event()
        self._subscription: Subscription | None = None
        self._left_in_pull = 0
        self._delivered = 0
        self._heard_at = 0.0

    async def open(self) -> None:
        """Listen where the deliveries will go. Raises `Unreachable`."""
        try:
            self._subscription = await self._client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # nats-py leaves the type of a parameter that is not used open
                self._client.new_inbox(), cb=self._on_message, pending_bytes_limit=0
            )
        except nats.errors.Error as error:
            raise Unreachable(f"The connection was lost: {error}.") from error
        self._lost.add_done_callback(self._on_lost)
        self._heard_at = asyncio.get_running_loop().time()

    async def next(self, wait_s: float) -> Message | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            while self._waiting:
                message = self._accept(self._waiting.popleft())
                if message is not None:
                    return message
            self._check_alive(loop.time())
            if self._left_in_pull <= 0:
                await self._pull()
            left_s = min(deadline, self._heard_at + SILENCE_MAX_S) - loop.time()
            if not await wait_at_most(self._arrived, left_s) and loop.time() >= deadline:
                return None
            self._arrived.clear()

    async def close(self) -> None:
        self._lost.remove_done_callback(self._on_lost)
        with contextlib.suppress(nats.errors.Error, OSError):
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            # The server would find out by itself after a minute; no answer is waited for.
            await self._client.publish(self._delete_subject, b"")

    async def _pull(self) -> None:
        assert self._subscription is not None
        request = api.PullRequest(
            batch=PULL_MESSAGES,
            max_bytes=self._pull_bytes,
            expires=round(PULL_EXPIRES_S * api.NANOSECONDS),
            idle_heartbeat=round(HEARTBEAT_S * api.NANOSECONDS),
        )
        try:
            await self._client.publish(
                self._pull_subject,
                msgspec.json.encode(request),
                reply=self._subscription.subject,
            )
        except (nats.errors.Error, OSError) as error:
            raise ReaderLost(f"The connection was lost: {error}.") from error
        self._left_in_pull = PULL_MESSAGES

    async def _on_message(self, message: Msg) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._waiting.append(message)
        self._arrived.set()

    def _on_lost(self, _: asyncio.Future[None]) -> None:
        self._arrived.set()

    def _check_alive(self, now: float) -> None:
        if self._lost.done():
            raise ReaderLost("The connection was lost.")
        if now - self._heard_at >= SILENCE_MAX_S:
            raise ReaderLost(f"The reader was silent for {now - self._heard_at:.1f} s.")

    def _accept(self, message: Msg) -> Message | None:
        """A delivery; None for a word of the server's about the pull."""
        headers = dict(message.headers or {})
        status = headers.get("Status")
        if status is not None and not message.data:
            self._hear(status, headers.get("Description", ""))
            return None
        metadata = message.metadata
        self._left_in_pull -= 1
        self._delivered += 1
        if metadata.sequence.consumer != self._delivered:
            raise ReaderLost(f"Delivery {self._delivered} was lost on the way.")
        return Message(message.subject, metadata.sequence.stream, headers, message.data)

    def _hear(self, status: str, description: str) -> None:
        if status == _HEARTBEAT:
            return
        if status in _PULL_IS_OVER or "maxbytes" in description.lower().replace(" ", ""):
            self._left_in_pull = 0
            return
        if "batch completed" in description.lower():
            self._left_in_pull = 0
            return
        raise ReaderLost(f"The server gave the reader up: {status} {description}.")


async def _close(client: Client) -> None:
    # After a TLS handshake that failed, asyncio waits for ever for the end of the connection.
    with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await client.close()


def _hint(error: BaseException) -> str:
    if isinstance(error, nats.errors.NoServersError | ssl.SSLError):  # it never came to credentials
        return "Is it the right server, and is it running?"
    return "Is it the right server? One that refuses the credentials may just hang up."


def _check(settings: ConnectionSettings) -> None:
    unknown = settings.keys() - ConnectionSettings.__annotations__.keys()
    if unknown:
        raise InvalidCall(
            f"There is no connection setting {min(unknown)!r}.",
            hint=f"There are {', '.join(sorted(ConnectionSettings.__annotations__))}.",
        )
    if ("user" in settings) != ("password" in settings):
        raise InvalidCall("user and password are given together or not at all.")
    if "stream" in settings and not _STREAM_NAME.fullmatch(settings["stream"]):
        raise InvalidCall(
            f"A stream cannot be called {settings['stream']!r}.",
            hint=f"A name has 1 to {STREAM_CHARACTERS_MAX} characters, none of them a blank or one "
            r"of . * > / \.",
        )
    for name in _FILES:
        path = settings.get(name)
        if path is not None and not Path(str(path)).is_file():
            raise InvalidCall(f"{name} names {str(path)!r}, and there is no such file.")
    if settings.keys() & set(_NEED_NKEYS) and importlib.util.find_spec("nkeys") is None:
        raise InvalidCall(
            "Credentials files and NKeys need the package nkeys.",
            hint="Install structmem with its extra: pip install 'structmem[nkey]'.",
        )


def _check_url(url: str) -> None:
    """Whether nats-py can make host and port of `url`, whose scheme may be left out."""
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number or above 65,535, a bracket that is not closed
        usable = False
    if not usable:
        raise InvalidCall(
            f"{_name(url)!r} is not the URL of a server.",
            hint="Pass a URL such as nats://host:4222; ports go up to 65535.",
        )


def _name(url: str) -> str:
    """The server without what a URL may hold besides: user and password."""
    return url.rpartition("@")[2]


def _client_options(settings: ConnectionSettings) -> dict[str, Any]:
    options = {_NATS_NAMES[name]: value for name, value in settings.items() if name in _NATS_NAMES}
    return {name: str(v) if isinstance(v, Path) else v for name, v in options.items()}


def _api_prefix(settings: ConnectionSettings) -> str:
    if "api_prefix" in settings:
        return settings["api_prefix"]
    return f"$JS.{settings['domain']}.API" if "domain" in settings else "$JS.API"
