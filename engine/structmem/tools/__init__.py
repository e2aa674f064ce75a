"""What a model is handed: one tool for each operation that it was granted.

Nothing here knows a harness. `structmem.adapters` has the doors to those.
"""

from structmem.tools.approvals import ApprovalRequest, Approvals, declined, nobody_to_ask, timed_out
from structmem.tools.arguments import Arguments, read_arguments
from structmem.tools.granting import (
    OPERATIONS,
    READS,
    Level,
    call_id_of,
    memory_tools,
    tool_definitions,
)
from structmem.tools.instructions import ainstructions, instructions, rules
from structmem.tools.tool import MUST_BE_APPROVED, MemoryTool, ToolDefinition, ToolResult

__all__ = [
    "MUST_BE_APPROVED",
    "OPERATIONS",
    "READS",
    "ApprovalRequest",
    "Approvals",
    "Arguments",
    "Level",
    "MemoryTool",
    "ToolDefinition",
    "ToolResult",
    "ainstructions",
    "call_id_of",
    "declined",
    "instructions",
    "memory_tools",
    "nobody_to_ask",
    "read_arguments",
    "rules",
    "timed_out",
    "tool_definitions",
]
