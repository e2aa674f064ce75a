"""What is particular to JetStream (R3, R4, R7): settings of streams, ways to connect, errors."""

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client

from structmem_replicator import ConnectionSettings, EmbeddedServer, UnsafeStream
from structmem_replicator import jetstream_api as api
from structmem_replicator.errors import (
    Conflict,
    NotStored,
    ReaderLost,
    StreamFull,
    TransportError,
    Undecided,
    Unreachable,
)
from structmem_replicator.jetstream import SILENCE_MAX_S, JetStreamTransport
from tests.replicator.support import run

A = f"sm.f.{'a' * 32}"
SAFE = api.StreamConfig(name="STRUCTMEM", subjects=["sm.f.*", "sm.l.*.*"], discard="new")


async def ask(server: EmbeddedServer, what: str, body: dict[str, Any] | None = None) -> Any:
    """A request to the JetStream API as an administrator would make it."""
    client = Client()
    await client.connect(server.url)
    data = json.dumps(body).encode() if body else b""
    reply = await client.request(f"$JS.API.{what}", data, timeout=5)
    await client.close()
    return json.loads(reply.data)


# -- settings of the stream ----------------------------------------------------------------------

UNSAFE: dict[str, Any] = {
    "storage": "memory",
    "retention": "workqueue",
    "discard": "old",
    "max_age": 3_600 * api.NANOSECONDS,
    "max_msgs": 1000,
    "max_msgs_per_subject": 1,
    "persist_mode": "async",
    "allow_rollup_hdrs": True,
    "allow_msg_ttl": True,
    "allow_msg_counter": True,
    "allow_msg_schedules": True,
    "no_ack": True,
    "sealed": True,
    "mirror": {"name": "OTHER"},
    "sources": [{"name": "OTHER"}],
    "subject_transform": {"src": "a", "dest": "b"},
    "subjects": ["sm.f.*"],
}


def test_safe_settings_are_accepted() -> None:
    api.check_settings(SAFE)
    for subjects in (["sm.>"], [">"], ["sm.f.>", "sm.l.>"]):
        api.check_settings(msgspec.structs.replace(SAFE, subjects=subjects))
    api.check_settings(msgspec.structs.replace(SAFE, max_bytes=1 << 30, num_replicas=3))


@pytest.mark.parametrize(("name", "value"), UNSAFE.items(), ids=UNSAFE)
def test_r3_a_setting_that_can_lose_messages_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UnsafeStream, match=name):
        api.check_settings(msgspec.structs.replace(SAFE, **{name: value}))


def test_r3_a_missing_stream_is_made_safe(server: EmbeddedServer) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        await transport.close()
        made = (await ask(server, "STREAM.INFO.STRUCTMEM"))["config"]
        assert {name: made[name] for name in ("storage", "retention", "discard", "max_age")} == {
            "storage": "file", "retention": "limits", "discard": "new", "max_age": 0,
        }  # fmt: skip
        assert made["max_msgs"] == made["max_msgs_per_subject"] == made["max_bytes"] == -1

    run(check())


@pytest.mark.parametrize("change", [{"max_age": 10**12}, {"discard": "old"}, {"storage": "memory"}])
def test_r3_an_existing_stream_is_looked_at(server: EmbeddedServer, change: dict[str, Any]) -> None:
    async def check() -> None:
        config = msgspec.to_builtins(api.CreateRequest("STRUCTMEM", 1)) | change
        assert "error" not in await ask(server, "STREAM.CREATE.STRUCTMEM", config)
        transport = JetStreamTransport(server.url, create=True)
        with pytest.raises(UnsafeStream, match=next(iter(change))):
            await transport.connect()
        assert transport.generation == 0
        await transport.close()

    run(check())


def test_a_stream_that_is_missing_is_waited_for_unless_it_may_be_made(
    server: EmbeddedServer,
) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, {"stream": "MINE"}, create=False)
        with pytest.raises(Unreachable, match="MINE"):
            await transport.connect()
        maker = JetStreamTransport(server.url, {"stream": "MINE"}, create=True)
        await maker.connect()
        await maker.close()
        await transport.connect()
        await transport.close()

    run(check())


def test_the_streams_own_limit_counts_too(server: EmbeddedServer) -> None:
    async def check() -> None:
        config = msgspec.to_builtins(api.CreateRequest("STRUCTMEM", 1)) | {"max_msg_size": 999}
        await ask(server, "STREAM.CREATE.STRUCTMEM", config)
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        assert transport.message_bytes_max == 999
        await transport.close()

    run(check())


# -- errors --------------------------------------------------------------------------------------

REFUSALS: list[tuple[int, int, str, type[TransportError]]] = [
    (400, 10071, "wrong last sequence: 12", Conflict),
    (400, 10164, "wrong last sequence", Undecided),
    (409, 10158, "message id in process", Undecided),
    (503, 10077, "maximum messages exceeded", StreamFull),
    (503, 10047, "insufficient storage resources available", StreamFull),
    (503, 10008, "JetStream system temporarily unavailable", Undecided),
    (500, 10049, "a store failed", Undecided),
    (400, 10054, "message size exceeds maximum allowed", NotStored),
]


@pytest.mark.parametrize(("code", "err_code", "text", "kind"), REFUSALS)
def test_r4_an_answer_says_what_to_do(
    code: int, err_code: int, text: str, kind: type[TransportError]
) -> None:
    error = api.publish_error(api.Error(code, err_code, text), A)
    assert type(error) is kind
    assert text in str(error)


def test_r7_a_full_stream_is_told(server: EmbeddedServer) -> None:
    async def check() -> None:
        config = msgspec.to_builtins(api.CreateRequest("STRUCTMEM", 1)) | {"max_bytes": 5000}
        await ask(server, "STREAM.CREATE.STRUCTMEM", config)
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        sequence = await transport.publish(A, b"x" * 3000, {}, expected=0)
        with pytest.raises(StreamFull):
            await transport.publish(A, b"x" * 3000, {}, expected=sequence)
        await transport.close()

    run(check())


def test_nothing_is_written_to_stderr(
    server: EmbeddedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """nats-py would print a stack trace for each."""

    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        reader = await transport.reader(A, 1)
        server.kill()
        for _ in range(3):
            with pytest.raises(TransportError):
                await transport.connect()
                await transport.last(A)
        await reader.close()
        await transport.close()

    run(check())
    assert capfd.readouterr().err == ""


def test_answers_that_make_no_sense_are_no_crash() -> None:
    with pytest.raises(Unreachable):
        api.decode_answer(api.Ack, b"?")


def test_headers_are_read_from_their_block() -> None:
    block = b"NATS/1.0\r\nSm-Frame: 1 2 3\r\nOdd:  a:b \r\nno colon\r\n\r\n"
    assert api.parse_headers(block) == {"Sm-Frame": "1 2 3", "Odd": "a:b"}
    assert api.parse_headers(b"") == {}


def test_r7_a_connection_that_closed_without_a_word_is_replaced(server: EmbeddedServer) -> None:
    """nats-py does that when an error interrupts its own closing."""

    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        before = await transport.connect()
        reader = await transport.reader(A, 1)
        client = transport._client  # pyright: ignore[reportPrivateUsage]  # to break it
        assert client is not None
        client._closed_cb = None  # pyright: ignore[reportPrivateUsage]
        await client.close()
        assert transport.generation == 0
        assert await transport.connect() > before
        assert await transport.last(A) is None
        with pytest.raises(ReaderLost):
            await reader.next(1)
        await reader.close()
        await transport.close()

    run(check())


# -- readers -------------------------------------------------------------------------------------


async def consumers(server: EmbeddedServer) -> int:
    return int((await ask(server, "STREAM.INFO.STRUCTMEM"))["state"]["consumer_count"])


def test_a_closed_reader_leaves_nothing_on_the_server(server: EmbeddedServer) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        reader = await transport.reader(A, 1)
        await reader.next(0)
        assert await consumers(server) == 1
        await reader.close()
        while await consumers(server):
            await asyncio.sleep(0.01)
        await transport.close()

    run(check())


def test_a_silent_reader_lives_on(server: EmbeddedServer) -> None:
    """Heartbeats tell silence from death."""

    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        reader = await transport.reader(A, 1)
        assert await reader.next(SILENCE_MAX_S + 0.3) is None
        await transport.publish(A, b"x", {}, expected=0)
        assert await reader.next(5) is not None
        await reader.close()
        await transport.close()

    run(check())


def test_a_reader_whose_consumer_is_removed_says_so(server: EmbeddedServer) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        reader = await transport.reader(A, 1)
        await reader.next(0)
        (name,) = (await ask(server, "CONSUMER.NAMES.STRUCTMEM"))["consumers"]
        await ask(server, f"CONSUMER.DELETE.STRUCTMEM.{name}")
        async with asyncio.timeout(5):
            with pytest.raises(ReaderLost):
                while True:
                    await reader.next(1)
        await reader.close()
        await transport.close()

    run(check())


def test_a_reader_whose_stream_is_recreated_says_so(server: EmbeddedServer) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        reader = await transport.reader(A, 1)
        await reader.next(0)
        await ask(server, "STREAM.DELETE.STRUCTMEM")
        async with asyncio.timeout(5):
            with pytest.raises(ReaderLost):
                while True:
                    await reader.next(1)
        await reader.close()
        await transport.close()

    run(check())


def test_a_delivery_that_is_lost_on_the_way_is_noticed(server: EmbeddedServer) -> None:
    async def check() -> None:
        transport = JetStreamTransport(server.url, create=True)
        await transport.connect()
        sequence = 0
        for _ in range(3):
            sequence = await transport.publish(A, b"x", {}, expected=sequence)
        reader = await transport.reader(A, 1)
        assert await reader.next(5) is not None
        waiting = reader._waiting  # pyright: ignore[reportPrivateUsage]  # to lose one of them
        while len(waiting) < 2:
            await asyncio.sleep(0.01)
        waiting.popleft()
        with pytest.raises(ReaderLost, match="Delivery 2"):
            await reader.next(5)
        await reader.close()
        await transport.close()

    run(check())


# -- ways to connect -----------------------------------------------------------------------------


@contextmanager
def configured(config: str) -> Generator[EmbeddedServer]:
    with EmbeddedServer(config=config) as server:
        yield server


def connects(server: EmbeddedServer, settings: ConnectionSettings, url: str | None = None) -> bool:
    async def check() -> bool:
        transport = JetStreamTransport(url or server.url, settings, create=True)
        try:
            await transport.connect()
            await transport.publish(A, b"x", {}, expected=0)
        except Unreachable as error:
            assert "credentials" in str(error)
            return False
        finally:
            await transport.close()
        return True

    return run(check())


def test_r7_token() -> None:
    with configured("authorization { token: s3cret }") as server:
        assert not connects(server, {"token": "wrong"})
        assert not connects(server, {})
        assert connects(server, {"token": "s3cret"})


def test_r7_user_and_password_by_setting_and_by_url() -> None:
    with configured("authorization { user: me, password: pass }") as server:
        assert not connects(server, {"user": "me", "password": "wrong"})
        assert connects(server, {"user": "me", "password": "pass"})
    with configured("authorization { user: me, password: pass }") as server:
        assert connects(server, {}, server.url.replace("//", "//me:pass@"))


def test_r7_credentials_are_not_suspected_where_nobody_listens(server: EmbeddedServer) -> None:
    server.kill()
    with pytest.raises(Unreachable) as caught:
        run(JetStreamTransport(server.url, create=True).connect())
    assert "credentials" not in str(caught.value)
    assert "running" in str(caught.value)


def test_a_password_in_a_url_is_not_told() -> None:
    with configured("authorization { user: me, password: pass }") as server:
        url = server.url.replace("//", "//me:s3cret@")
        with pytest.raises(Unreachable) as caught:
            run(JetStreamTransport(url, create=True).connect())
        assert "s3cret" not in str(caught.value)


def test_r7_nkey(tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys")
    seed = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    seed_file = tmp_path / "me.nk"
    seed_file.write_bytes(seed)
    with configured(f"authorization {{ users: [ {{ nkey: {public} }} ] }}") as server:
        assert not connects(server, {})
        assert connects(server, {"nkey": seed_file})
    with configured(f"authorization {{ users: [ {{ nkey: {public} }} ] }}") as server:
        assert connects(server, {"nkey_seed": seed.decode()})


def test_r7_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", key, "-out", cert,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    with configured(f'tls {{ cert_file: "{cert}", key_file: "{key}" }}') as server:
        context = ssl.create_default_context(cafile=cert)
        assert connects(server, {"tls": context})
        with pytest.raises(Unreachable):
            run(JetStreamTransport(server.url, create=True).connect())


def test_r7_a_jetstream_domain(tmp_path: Path) -> None:
    with configured(f'jetstream {{ store_dir: "{tmp_path}", domain: hub }}') as server:
        assert connects(server, {"domain": "hub"})


def test_r7_credentials_file(tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys")
    seeds = {
        name: nkeys.encode_seed(bytes([number] * 32), prefix)
        for number, (name, prefix) in enumerate(
            {
                "operator": nkeys.PREFIX_BYTE_OPERATOR,
                "system": nkeys.PREFIX_BYTE_ACCOUNT,
                "account": nkeys.PREFIX_BYTE_ACCOUNT,
                "user": nkeys.PREFIX_BYTE_USER,
            }.items()
        )
    }
    public = {n: nkeys.from_seed(bytearray(s)).public_key.decode() for n, s in seeds.items()}

    def jwt(name: str, issuer: str, claims: dict[str, Any]) -> str:
        """A token as `nsc` makes them; https://docs.nats.io/running-a-nats-service/configuration/securing_nats/jwt"""
        body = {"iss": public[issuer], "sub": public[name], "name": name, "iat": 1, "jti": name}
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(map(encoded, (head, body | {"nats": claims | {"version": 2}})))
        signature = nkeys.from_seed(bytearray(seeds[issuer])).sign(text.encode())
        return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    limits = dict.fromkeys(
        ("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1
    ) | {"wildcards": True}
    storage = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
    accounts = {
        "system": {"type": "account", "limits": limits},
        "account": {"type": "account", "limits": limits | storage},
    }
    preload = "\n".join(
        f"{public[name]}: {jwt(name, 'operator', claims)}" for name, claims in accounts.items()
    )
    config = f"""operator: {jwt("operator", "operator", {"type": "operator"})}
        system_account: {public["system"]}
        resolver: MEMORY
        resolver_preload: {{ {preload} }}"""
    user = jwt("user", "account", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    file = tmp_path / "me.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user}\n------END NATS USER JWT------\n\n"
        "-----BEGIN USER NKEY SEED-----\n"
        f"{seeds['user'].decode()}\n------END USER NKEY SEED------\n"
    )
    with configured(config) as server:
        assert not connects(server, {})
        assert connects(server, {"credentials": file})


def encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_r7_a_violation_of_permissions_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """To nats-py it is a timeout, and a line for the error callback."""
    monkeypatch.setattr("structmem_replicator.jetstream.REQUEST_TIMEOUT_S", 0.5)
    config = """authorization { users: [ { user: me, password: pass, permissions: {
        publish: ["$JS.API.>"], subscribe: ["_INBOX.>"] } } ] }"""

    async def check(server: EmbeddedServer) -> None:
        transport = JetStreamTransport(server.url, {"user": "me", "password": "pass"}, create=True)
        await transport.connect()
        with pytest.raises(Undecided, match=r"(?i)permissions violation.*sm\.f\."):
            await transport.publish(A, b"x", {}, expected=0)
        await transport.close()

    with configured(config) as server:
        run(check(server))


def test_r7_one_of_several_servers_is_enough(server: EmbeddedServer) -> None:
    assert connects(server, {}, f"nats://127.0.0.1:1, {server.url}")
