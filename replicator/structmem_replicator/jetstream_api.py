"""The JetStream API as values: bodies of requests and answers, what its errors mean, and which
settings of a stream are safe. Pure; `jetstream` does the talking.

The API: https://docs.nats.io/reference/reference-protocols/nats_api_reference. Codes of errors:
https://github.com/nats-io/nats-server/blob/main/server/errors.json.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from structmem_replicator.errors import (
    Conflict,
    NotStored,
    StreamFull,
    TransportError,
    Undecided,
    Unreachable,
    UnsafeStream,
)
from structmem_replicator.subjects import STREAM_SUBJECTS, covers
from structmem_replicator.transport import Message

T = TypeVar("T", bound="Answer")

NANOSECONDS: Final = 1_000_000_000

NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059
NAME_IN_USE: Final = 10058
_WRONG_LAST_SEQUENCE: Final = 10071
_IN_FLIGHT: Final = frozenset((10158, 10164))
"""Another message of this subject is being stored, perhaps our own that timed out."""
_NO_ROOM: Final = frozenset((10002, 10023, 10028, 10047, 10077))
_SERVER_SIDE: Final = 500


class Error(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Answer(Struct, frozen=True):
    error: Error | None = None


class Ack(Answer, frozen=True):
    stream: str = ""
    seq: int = 0


class Stored(Struct, frozen=True):
    """A stored message; msgspec reads the base64 of JSON as bytes."""

    subject: str
    seq: int
    data: bytes = b""
    hdrs: bytes = b""

    def message(self) -> Message:
        return Message(self.subject, self.seq, parse_headers(self.hdrs), self.data)


class Got(Answer, frozen=True):
    message: Stored | None = None


class StreamConfig(Struct, frozen=True):
    """The settings that matter here, with the values a server means when it leaves one out."""

    name: str = ""
    subjects: list[str] = field(default_factory=list[str])
    retention: str = "limits"
    storage: str = "file"
    discard: str = "old"
    num_replicas: int = 1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    allow_direct: bool = False
    no_ack: bool = False
    sealed: bool = False
    allow_rollup_hdrs: bool = False
    allow_msg_ttl: bool = False
    allow_msg_counter: bool = False
    allow_msg_schedules: bool = False
    subject_delete_marker_ttl: int = 0
    persist_mode: str = "default"
    mirror: Any = None
    sources: Any = None
    subject_transform: Any = None


class StreamState(Struct, frozen=True):
    subjects: dict[str, int] | None = None


class StreamInfo(Answer, frozen=True):
    config: StreamConfig = StreamConfig()
    state: StreamState = StreamState()
    total: int = 0


class SubjectsRequest(Struct, frozen=True):
    subjects_filter: str
    offset: int


class GetRequest(Struct, frozen=True, omit_defaults=True):
    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""


class CreateRequest(Struct, frozen=True):
    """A stream as we make it: the server never deletes, and refuses when it is full."""

    name: str
    num_replicas: int
    subjects: tuple[str, ...] = STREAM_SUBJECTS
    retention: str = "limits"
    storage: str = "file"
    discard: str = "new"
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    allow_direct: bool = True


class ConsumerConfig(Struct, frozen=True):
    name: str
    filter_subject: str
    opt_start_seq: int
    inactive_threshold: int
    deliver_policy: str = "by_start_sequence"
    ack_policy: str = "none"
    replay_policy: str = "instant"
    mem_storage: bool = True
    num_replicas: int = 1


class ConsumerRequest(Struct, frozen=True):
    stream_name: str
    config: ConsumerConfig


class PullRequest(Struct, frozen=True):
    batch: int
    max_bytes: int
    expires: int
    idle_heartbeat: int


def decode_answer(kind: type[T], data: bytes) -> T:
    """An answer of the API. Raises `Unreachable` for what is none: something else replied."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise Unreachable(f"The server's answer makes no sense: {error}.") from error


def parse_headers(block: bytes) -> dict[str, str]:
    """The headers in a block as it travels: a status line, then `Name: value` lines."""
    lines = (line.partition(b":") for line in block.split(b"\r\n")[1:])
    return {
        name.strip().decode("utf-8", "replace"): value.strip().decode("utf-8", "replace")
        for name, colon, value in lines
        if colon
    }


def publish_error(error: Error, subject: str) -> TransportError:
    """What a refusal to store means, by what the publisher does next."""
    says = f"{subject}: {error.description} ({error.code}/{error.err_code})."
    if error.err_code == _WRONG_LAST_SEQUENCE:
        return Conflict(says)
    if error.err_code in _IN_FLIGHT:
        return Undecided(says)
    if error.err_code in _NO_ROOM:
        return StreamFull(says)
    return Undecided(says) if error.code >= _SERVER_SIDE else NotStored(says)


# -- settings ------------------------------------------------------------------------------------

_Rule = tuple[str, Callable[[StreamConfig], bool], Callable[[StreamConfig], str]]

_RULES: Final[tuple[_Rule, ...]] = (
    # setting, is it safe, what is wrong
    ("storage", lambda c: c.storage == "file", lambda c: f"is {c.storage}: lost with the server"),
    (
        "retention",
        lambda c: c.retention == "limits",
        lambda c: f"is {c.retention}: reading removes",
    ),
    ("discard", lambda c: c.discard == "new", lambda c: f"is {c.discard}: a full stream deletes"),
    (
        "max_age",
        lambda c: c.max_age <= 0,
        lambda c: f"is {c.max_age / NANOSECONDS:g} s: time deletes",
    ),
    ("max_msgs", lambda c: c.max_msgs < 0, lambda c: f"is {c.max_msgs}"),
    (
        "max_msgs_per_subject",
        lambda c: c.max_msgs_per_subject < 0,
        lambda c: f"is {c.max_msgs_per_subject}: new messages delete old ones",
    ),
    (
        "persist_mode",
        lambda c: c.persist_mode != "async",
        lambda c: "is async: acks come too early",
    ),
    ("allow_rollup_hdrs", lambda c: not c.allow_rollup_hdrs, lambda c: "is on: a header deletes"),
    ("allow_msg_ttl", lambda c: not c.allow_msg_ttl, lambda c: "is on: a header deletes"),
    ("allow_msg_counter", lambda c: not c.allow_msg_counter, lambda c: "is on: bodies are changed"),
    (
        "allow_msg_schedules",
        lambda c: not c.allow_msg_schedules,
        lambda c: "is on: delays messages",
    ),
    ("no_ack", lambda c: not c.no_ack, lambda c: "is on: nothing is confirmed"),
    ("sealed", lambda c: not c.sealed, lambda c: "is on: nothing can be stored"),
    ("mirror", lambda c: c.mirror is None, lambda c: "is set: it copies another stream"),
    ("sources", lambda c: not c.sources, lambda c: "is set: it copies other streams"),
    (
        "subject_transform",
        lambda c: c.subject_transform is None,
        lambda c: "is set: renames subjects",
    ),
)


def check_settings(config: StreamConfig) -> None:
    """Refuse a stream whose settings let the server remove or alter messages, or confirm what it
    has not kept. Raises `UnsafeStream`, naming every setting at fault."""
    faults = [f"{name} {wrong(config)}" for name, safe, wrong in _RULES if not safe(config)]
    faults += [
        f"subjects lacks {subject}"
        for subject in STREAM_SUBJECTS
        if not any(covers(pattern, subject) for pattern in config.subjects)
    ]
    if faults:
        raise UnsafeStream(
            f"Stream {config.name!r} must not be used: {'; '.join(faults)}.",
            hint="Change these settings, or name another stream; a missing one is made as it "
            "has to be.",
        )
