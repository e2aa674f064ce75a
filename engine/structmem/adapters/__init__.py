"""The memory's tools, handed to the harnesses that run agents: a module or package for each.

Rules: an adapter imports the public face of `structmem`, `structmem.tools` and the one harness it
is for. It adds no rule of its own: what a tool may do, what its arguments must be and what an
approval binds to is decided in `structmem.tools`.
"""
