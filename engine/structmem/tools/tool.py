"""One tool: an operation of one memory, under the name that a model calls it by.

Invariants:

- A call returns, whatever the model sent and whatever the memory refuses: an error is a result that
  says what to do. Only a bug, or a caller who is not a model, gets an exception.
- A tool that must be approved runs only with the name of who approved; and only on what they were
  shown, if it is known what that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

import structmem
from structmem import (
    CallIdReused,
    CannotUndo,
    InvalidCall,
    PreviewOutdated,
    StructMemError,
    WriteInQuery,
)
from structmem.tools import shapes
from structmem.tools.approvals import ApprovalRequest, Asked, outdated, request_of, unapproved
from structmem.tools.arguments import Arguments, convert, digest_of, read_arguments
from structmem.tools.operations import How, Input
from structmem.tools.schemas import schema_of
from structmem.tools.wording import Names, granted, known, quoted, renamed

if TYPE_CHECKING:
    from structmem import AsyncStructuredMemory, StructuredMemory

MUST_BE_APPROVED = "A person must approve each call."
"""Said of a tool at level `ask`, in its description."""

_IDLE = "No row matches, so there is nothing to do, and nobody was asked."

_WRITERS = ("create_table", "add_column", "insert", "update", "delete", "execute")
"""What a model may have meant that sent SQL to `query` which writes."""


class ToolResult(Struct, frozen=True):
    """What the model is told. `data` is a JSON object; with `is_error` it is `{"error": {"code",
    "message", "hint"}}`."""

    data: dict[str, Any]
    is_error: bool = False

    @property
    def text(self) -> str:
        """`data` as JSON text."""
        return msgspec.json.encode(self.data).decode()

    @classmethod
    def of_error(cls, error: StructMemError) -> ToolResult:
        return cls({"error": shapes.of_error(error)}, is_error=True)


@dataclass(frozen=True)
class ToolDefinition:
    """What a model and a harness know of a tool.

    `input_schema` is a JSON schema whose root is an object. `level` is `ask` where a person must
    approve each call. `read_only`, `destructive` (what is there may be changed or removed) and
    `idempotent` (a second equal call changes nothing more) are hints in the sense of MCP; no tool
    reaches outside its memory.
    """

    name: str
    operation: str
    level: Literal["allow", "ask"]
    title: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool
    destructive: bool
    idempotent: bool


def define(kind: type[Input], level: Literal["allow", "ask"], names: Names) -> ToolDefinition:
    """The tool of an operation that was granted, for a model that has the tools in `names`."""
    name = names[kind.operation]
    assert name is not None, f"{kind.operation} is granted, so its tool has a name"
    ask = f" {MUST_BE_APPROVED}" if level == "ask" else ""
    example = f" Example: {quoted(kind.example)}" if kind.example else ""
    return ToolDefinition(
        name=name,
        operation=kind.operation,
        level=level,
        title=kind.title,
        description=granted(kind.about, names) + ask + example,
        input_schema=schema_of(kind),
        read_only=kind.read_only,
        destructive=kind.destructive,
        idempotent=kind.idempotent,
    )


@dataclass(frozen=True)
class Box:
    """What the tools of one memory share."""

    memory: StructuredMemory | AsyncStructuredMemory
    actor: str | None
    how: How
    names: Names

    @property
    def blocking(self) -> StructuredMemory:
        if isinstance(self.memory, structmem.StructuredMemory):
            return self.memory
        raise InvalidCall(
            "The tools of an AsyncStructuredMemory are awaited.", hint="Use acall and arequest."
        )

    @cached_property
    def awaited(self) -> AsyncStructuredMemory:
        if isinstance(self.memory, structmem.StructuredMemory):
            return structmem.AsyncStructuredMemory.sharing(self.memory)
        return self.memory


@dataclass(frozen=True)
class MemoryTool(ToolDefinition):
    """A tool that can be called. `call` and `request` are for a `StructuredMemory`, `acall` and
    `arequest` for either kind. They raise `InvalidCall` for the wrong kind, and for a `shown` that
    is no `ApprovalRequest`: both are the program's mistakes. Whatever else is wrong is a result."""

    _input: type[Input] = field(repr=False)
    _box: Box = field(repr=False)

    def call(
        self,
        arguments: Arguments,
        *,
        call_id: str | None = None,
        approved_by: str | None = None,
        actor: str | None = None,
        shown: ApprovalRequest | None = None,
    ) -> ToolResult:
        """Carry out the operation. `arguments` are an object, or JSON text of one.

        `call_id` is an idempotency key, as for the memory's methods. `approved_by` says who
        approved this call, and `shown` what they saw: it goes through only if that is still so.
        `actor` is who the journal is told, instead of the one that the tools were made for.
        """
        approval = _approval(approved_by, shown)
        return self._call(self._box.blocking, arguments, call_id, actor, approval)

    async def acall(
        self,
        arguments: Arguments,
        *,
        call_id: str | None = None,
        approved_by: str | None = None,
        actor: str | None = None,
        shown: ApprovalRequest | None = None,
    ) -> ToolResult:
        """As `call`, without blocking the event loop."""
        approval = _approval(approved_by, shown)

        def work(memory: StructuredMemory) -> ToolResult:
            return self._call(memory, arguments, call_id, actor, approval)

        try:
            return await self._box.awaited.run(work, writes=not self.read_only)
        except StructMemError as error:  # closed, or of a parent process: nothing was begun
            return self._refused(error)

    def request(self, arguments: Arguments) -> ApprovalRequest | ToolResult:
        """What to show a person before this call: what it would do, and to what. The call is
        rehearsed: a `ToolResult` is for the model, and nobody needs to be asked, because the call
        would fail, or find nothing to do."""
        return self._request(self._box.blocking, arguments)

    async def arequest(self, arguments: Arguments) -> ApprovalRequest | ToolResult:
        """As `request`, without blocking the event loop."""

        def work(memory: StructuredMemory) -> ApprovalRequest | ToolResult:
            return self._request(memory, arguments)

        try:
            return await self._box.awaited.run(work, writes=False)
        except StructMemError as error:
            return self._refused(error)

    def _call(
        self,
        memory: StructuredMemory,
        arguments: Arguments,
        call_id: str | None,
        actor: str | None,
        approval: Approval,
    ) -> ToolResult:
        try:
            given = read_arguments(arguments)
            wanted = convert(given, self._input)
            self._check_approved(approval)
            acting = memory.acting_as(
                actor or self._box.actor or memory.actor, approved_by=approval.by
            )
            how = msgspec.structs.replace(self._box.how, call_id=call_id)
            if approval.shown is None:
                return ToolResult(wanted.run(acting, how))
            asked = self._asked(memory, given)
            return ToolResult(self._as_shown(acting, wanted, asked, how, approval.shown))
        except StructMemError as error:
            return self._refused(error)

    def _check_approved(self, approval: Approval) -> None:
        if self.level == "ask" and not approval.by:
            raise unapproved(self.operation)

    def _as_shown(
        self,
        memory: StructuredMemory,
        wanted: Input,
        asked: Asked,
        how: How,
        shown: ApprovalRequest,
    ) -> Any:
        """Run it if what was `shown` is still so. It is looked at just before; and the memory
        itself sees to what it can, in the transaction of the write. An undo of one operation can
        be nothing else, so that it is looked at only to tell why it failed."""
        if shown.memory != asked.memory:
            raise outdated("The call is to another memory.")
        if (shown.tool, shown.arguments_digest) != (asked.tool, asked.arguments_digest):
            raise outdated("The call has other arguments.")
        binds = shown.binds or {}
        if "op_id" not in binds:
            self._check_same(memory, wanted, asked, how, shown)
        try:
            return wanted.run(memory, how, **binds)
        except PreviewOutdated as error:
            raise outdated(error.message) from error
        except CannotUndo:
            self._check_same(memory, wanted, asked, how, shown)
            raise

    def _asked(self, memory: StructuredMemory, given: Mapping[str, Any]) -> Asked:
        return Asked(memory.id, self.name, digest_of(given))

    def _check_same(
        self,
        memory: StructuredMemory,
        wanted: Input,
        asked: Asked,
        how: How,
        shown: ApprovalRequest,
    ) -> None:
        """Raise `ApprovalVoid` if it would do something else than was `shown`. A call that comes
        again has done it already."""
        try:
            rehearsed = wanted.rehearse(memory, how)
        except CallIdReused:
            raise
        except InvalidCall as error:
            raise outdated(error.message) from error
        if rehearsed is not None and rehearsed.repeated:
            return
        if request_of(asked, wanted, wanted.sight(memory), rehearsed) != shown:
            raise outdated("It would touch something else now.")

    def _request(
        self, memory: StructuredMemory, arguments: Arguments
    ) -> ApprovalRequest | ToolResult:
        try:
            given = read_arguments(arguments)
            wanted = convert(given, self._input)
            rehearsed = wanted.rehearse(memory, self._box.how)
            sight = wanted.sight(memory)
            if rehearsed is not None and wanted.is_idle(sight):
                told = shapes.of_write_briefly(rehearsed)
                return ToolResult(told | {"warnings": [_IDLE, *rehearsed.warnings]})
            return request_of(self._asked(memory, given), wanted, sight, rehearsed)
        except StructMemError as error:
            return self._refused(error)

    def _refused(self, error: StructMemError) -> ToolResult:
        """The error, said with the names that the model knows."""
        names = self._box.names
        told = shapes.of_error(error)
        hint = granted(told["hint"] or "", names)
        if isinstance(error, WriteInQuery):
            hint = hint or _writers(names)
        told |= {"message": renamed(told["message"], known(names)), "hint": hint or None}
        return ToolResult({"error": told}, is_error=True)


class Approval(NamedTuple):
    """Who approved a call, and what they had been shown, if that is known."""

    by: str | None
    shown: ApprovalRequest | None


def _approval(approved_by: str | None, shown: ApprovalRequest | None) -> Approval:
    if shown is not None and not isinstance(shown, ApprovalRequest):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may err
        raise InvalidCall(
            f"shown must be an ApprovalRequest, not a {type(shown).__name__}.",
            hint="A ToolResult of `request` is for the model: there is nothing to approve.",
        )
    return Approval(approved_by, shown)


def _writers(names: Names) -> str:
    """Which tools change the memory."""
    there = [tool for name in _WRITERS if (tool := names.get(name)) is not None]
    if not there:
        return "No tool that writes is granted."
    return f"To change the memory: {', '.join(there)}."
