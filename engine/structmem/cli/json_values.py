"""Stored values as JSON, without loss.

JSON has no blobs, no infinities, and readers that keep integers as doubles. Those values become an
object with one key: `{"$int": "9223372036854775807"}` beyond 2^53, `{"$blob": "<base64>"}`,
`{"$real": "inf"}`.
"""

import base64
import math
from typing import Any, Final

from structmem_journal import Value

_EXACT_INTEGER_MAX: Final = 1 << 53
"""Up to here every integer is a double (IEEE 754 binary64 has 53 bits of significand)."""


def to_json(value: Value) -> Any:
    """`value` as something that any JSON encoder writes without loss."""
    match value:
        case int() if abs(value) > _EXACT_INTEGER_MAX:
            return {"$int": str(value)}
        case float() if math.isinf(value):
            return {"$real": "inf" if value > 0 else "-inf"}
        case bytes():
            return {"$blob": base64.b64encode(value).decode()}
        case _:
            return value
