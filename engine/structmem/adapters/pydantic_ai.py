"""A memory as a toolset of Pydantic AI: `Agent(..., toolsets=[MemoryToolset(memory, ...)])`.

What is granted, checked and said to the model is decided in `structmem.tools`; here is what
Pydantic AI wants beside that.

Rules:
- Nothing that a model sends ends its run or uses up its retries: arguments pass unchecked, as text
  if they are no JSON object, and every refusal is a failed result.
- A person is asked only about a call that can succeed. The question carries what the call would
  touch, and a grant given in this process holds for exactly that, once.
- A write carries a call id made of the conversation, the tool call and the arguments, so that a run
  which is resumed or replayed writes once.
- The toolset never closes the memory.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

try:
    from pydantic_ai import DeferredToolRequests, RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability, CombinedCapability, WrapperCapability
    from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "structmem.adapters.pydantic_ai needs Pydantic AI: pip install 'structmem[pydantic-ai]'",
        name=error.name,
    ) from error

from structmem import AsyncStructuredMemory, InvalidCall, StructuredMemory
from structmem.tools import (
    ApprovalRequest,
    Level,
    MemoryTool,
    ToolResult,
    ainstructions,
    call_id_of,
    instructions,
    memory_tools,
    nobody_to_ask,
    read_arguments,
)

__all__ = ["MemoryToolset"]

Named: TypeAlias = str | Callable[[RunContext[AgentDepsT]], str | None] | None
"""Who: a name, or what tells it from the context of a run."""

UNREADABLE: Final = "INVALID_JSON"
"""The key under which arguments travel that are no JSON object. Pydantic AI shows them to the model
under the same one."""

HARNESS: Final = "pydantic-ai"
"""Who approved, where the application does not say which person did."""

REQUESTS_MAX: Final = 256
"""Questions that are kept for their answers. The answer to one that was pushed out stands for the
arguments, as it does in another process."""


class MemoryToolset(AbstractToolset[AgentDepsT]):
    """The tools of one memory, for any number of agents, also at the same time.

    `permissions`, `prefix`, `max_rows` and `max_bytes` are those of `structmem.tools.memory_tools`.
    `actor` is who writes, and `approver` who is recorded for a granted call; either may be a
    function of the run's context. Without `approver` it is the text `approved_by` in the metadata
    of the `DeferredToolResults`, else "pydantic-ai".

    `can_ask` tells whether somebody can answer for a tool at level `ask`. By default: when a
    capability handles deferred calls, or the agent's own `output_type` has `DeferredToolRequests`.
    Say so yourself where an output type is given to a run, which a toolset is not told. Where
    nobody can be asked the call fails with the code `nobody_to_ask`.

    With `unapproved` the tools at level `ask` have that kind, for user interfaces and wrappers that
    go by it, wherever somebody can be asked. Pydantic AI then asks before any other call of the
    same answer is carried out; and a run by `run_stream` ends with the question before the call was
    looked at, so without a preview. Left out, the call itself asks, and the kind is `function`.

    With `include_instructions` each request to the model has the rules and the schema.

    Raises `InvalidCall` for permissions or a prefix that are wrong.
    """

    def __init__(
        self,
        memory: StructuredMemory | AsyncStructuredMemory,
        *,
        permissions: Mapping[str, Level],
        prefix: str = "db_",
        actor: Named[AgentDepsT] = None,
        approver: Named[AgentDepsT] = None,
        can_ask: bool | Callable[[RunContext[AgentDepsT]], bool] | None = None,
        unapproved: bool = False,
        max_rows: int = 200,
        max_bytes: int = 16_384,
        include_instructions: bool = True,
        id: str | None = None,
    ) -> None:
        tools = memory_tools(
            memory, permissions=permissions, prefix=prefix, max_rows=max_rows, max_bytes=max_bytes
        )
        self._memory = memory
        self._tools = {tool.name: tool for tool in tools}
        self._permissions = dict(permissions)
        self._prefix = prefix
        self._actor = actor
        self._approver = approver
        self._can_ask = can_ask
        self._unapproved = unapproved
        self._include_instructions = include_instructions
        self._id = id
        self._requests = _Requests()

    @property
    def id(self) -> str | None:
        return self._id

    @property
    def tool_name_conflict_hint(self) -> str:
        return "Give each memory a `prefix` of its own: MemoryToolset(memory, prefix='crm_', ...)."

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> str | None:
        if not self._include_instructions:
            return None
        told: Any = {"prefix": self._prefix, "permissions": self._permissions}
        if isinstance(self._memory, AsyncStructuredMemory):
            return await ainstructions(self._memory, **told)
        return await asyncio.to_thread(instructions, self._memory, **told)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return {name: self._tool(tool, ctx) for name, tool in self._tools.items()}

    def _tool(self, tool: MemoryTool, ctx: RunContext[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
        # Where nobody can be asked, that kind would end the run; the call itself says it better.
        unapproved = self._unapproved and tool.level == "ask" and self._somebody_answers(ctx)
        return ToolsetTool(
            toolset=self,
            tool_def=_definition(tool, "unapproved" if unapproved else "function"),
            max_retries=ctx.max_retries,
            args_validator=_AnyArguments(),
            args_validator_func=self._gate(tool) if unapproved else None,
        )

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> dict[str, Any]:
        mine = self._tools[name]
        if mine.level == "ask" and not ctx.tool_call_approved:
            return await self._ask(mine, tool_args, ctx)
        key = _key(ctx, tool_args)
        result = await mine.acall(
            _sent(tool_args),
            call_id=None if mine.read_only else key,
            actor=_named(self._actor, ctx),
            approved_by=self._approver_in(ctx) if ctx.tool_call_approved else None,
            shown=self._requests.find(name, key),
        )
        if result.is_error:
            raise ToolFailed(result.text)
        self._requests.forget(name, key)
        return result.data

    def _gate(self, tool: MemoryTool) -> Callable[..., Any]:
        """What Pydantic AI runs on the arguments of an unapproved call before it asks."""

        async def gate(ctx: RunContext[AgentDepsT], /, **tool_args: Any) -> None:
            if not ctx.tool_call_approved:
                idle = await self._ask(tool, tool_args, ctx)
                raise ToolFailed(ToolResult(idle).text)  # a check has no other way to answer

        return gate

    async def _ask(
        self, tool: MemoryTool, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT]
    ) -> dict[str, Any]:
        """Raises `ApprovalRequired` with what the call would touch, or `ToolFailed` if nobody is
        there to be asked or the call cannot succeed. Returns the result of one that does nothing.
        """
        if not self._somebody_answers(ctx):
            refusal = nobody_to_ask(tool.name, "in this run nobody can be asked")
            raise ToolFailed(ToolResult.of_error(refusal).text)
        request = await tool.arequest(_sent(tool_args))
        if isinstance(request, ToolResult):
            if request.is_error:
                raise ToolFailed(request.text)
            return request.data
        self._requests.keep(tool.name, _key(ctx, tool_args), request)
        raise ApprovalRequired({"approval": request.data, "text": request.text})

    def _somebody_answers(self, ctx: RunContext[AgentDepsT]) -> bool:
        if self._can_ask is None:
            root = ctx.root_capability
            return (root is not None and _answers(root)) or _pauses(ctx)
        return self._can_ask(ctx) if callable(self._can_ask) else self._can_ask

    def _approver_in(self, ctx: RunContext[AgentDepsT]) -> str:
        match ctx.tool_call_metadata:
            case {"approved_by": str(answered)}:
                return _named(self._approver, ctx) or answered or HARNESS
            case _:
                return _named(self._approver, ctx) or HARNESS


class _AnyArguments:
    """A validator that lets all arguments pass, as a dict: what is wrong with them is for the tool
    to say. One that raised would cost the model a retry."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        text = input if isinstance(input, str) else input.decode(errors="replace")
        try:
            return read_arguments(text)
        except InvalidCall:
            return {UNREADABLE: text}

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        try:
            arguments = read_arguments(input)
        except InvalidCall:
            return {UNREADABLE: input}
        # Pydantic AI passes them on as keywords.
        return arguments if all(isinstance(key, str) for key in input) else {UNREADABLE: input}


class _Requests:
    """What was shown to approvers: the newest `REQUESTS_MAX`, each until its call was carried out.
    One that does not hold any more stays, so that the same grant is void the next time as well."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], ApprovalRequest] = OrderedDict()

    def keep(self, name: str, key: str | None, request: ApprovalRequest) -> None:
        if key is None:
            return
        self._kept.pop((name, key), None)
        self._kept[name, key] = request
        while len(self._kept) > REQUESTS_MAX:
            self._kept.popitem(last=False)

    def find(self, name: str, key: str | None) -> ApprovalRequest | None:
        return None if key is None else self._kept.get((name, key))

    def forget(self, name: str, key: str | None) -> None:
        if key is not None:
            self._kept.pop((name, key), None)


def _definition(tool: MemoryTool, kind: Literal["function", "unapproved"]) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.input_schema,
        kind=kind,
        sequential=not tool.read_only,
        # A strict schema would close the objects that rows are, and leave them no key.
        strict=False,
        metadata={
            "title": tool.title,
            "operation": tool.operation,
            "level": tool.level,
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        },
    )


def _sent(tool_args: dict[str, Any]) -> Any:
    """The arguments as the model sent them.

    What is readable stays wrapped, and so is refused: else a model that wraps its arguments itself
    would hide them from the hooks and conditions of an application.
    """
    if tool_args.keys() != {UNREADABLE}:
        return tool_args
    try:
        read_arguments(tool_args[UNREADABLE])
    except InvalidCall:
        return tool_args[UNREADABLE]
    return tool_args


def _key(ctx: RunContext[Any], tool_args: dict[str, Any]) -> str | None:
    """What stays the same when this call is made again after a pause or a crash.

    Pydantic AI keeps the conversation's id in the message history. A run's id is another one after
    a pause; it serves where there is no conversation.
    """
    conversation = ctx.conversation_id or ctx.run_id
    if conversation is None or ctx.tool_call_id is None:
        return None
    return call_id_of(conversation, ctx.tool_call_id, tool_args)


def _named(who: Named[AgentDepsT], ctx: RunContext[AgentDepsT]) -> str | None:
    return who(ctx) if callable(who) else who


def _answers(capability: AbstractCapability[Any]) -> bool:
    """Whether it may answer deferred calls while the run goes on: whether it, or one that it is
    made of, has a method of its own for that."""
    own = type(capability).handle_deferred_tool_calls
    match capability:
        case CombinedCapability():
            return any(map(_answers, capability.capabilities))
        case WrapperCapability() if own is WrapperCapability.handle_deferred_tool_calls:
            return _answers(capability.wrapped)
        case _:
            return own is not AbstractCapability.handle_deferred_tool_calls


def _pauses(ctx: RunContext[Any]) -> bool:
    """Whether the run can end with a question; if it is not known whose run it is, it may."""
    if ctx.realtime:
        return False
    return ctx.agent is None or _has_requests(cast("object", ctx.agent.output_type))


def _has_requests(output: object) -> bool:
    if isinstance(output, list | tuple):
        return any(map(_has_requests, cast("list[object]", output)))
    return output is DeferredToolRequests or DeferredToolRequests in get_args(output)
