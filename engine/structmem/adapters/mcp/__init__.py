"""A door for agents that speak the Model Context Protocol over standard input and output.

`structmem mcp crm.db --allow insert --ask update` serves the tools of one memory, or of several,
in both eras of the protocol: the handshake (2024-11-05 to 2025-11-25) and the envelope that each
request carries (2026-07-28).

Read `messages` (lines), `protocol` (what they say), `asking` (a person's answer), `memories` (which
tools there are), then `door`, which joins them; `serving` is the process around it, and `command`
starts that.

Invariants:
- Nothing but messages of the protocol reaches standard output, each whole, on a line of its own.
- No line, however broken, ends the door, and each request is answered at most once.
- An operation that is to be asked for runs only after a person's yes to exactly this call, unless
  the operator handed that question to the host.
"""
