"""The demo: the main job, end to end, on input that every machine has.

An agent in a process of its own keeps what it finds about the installed Python distributions in a
memory. A replica in another process follows. The agent is killed with SIGKILL in the middle and
started again. At the end both sides must be equal, to the byte. `stage` runs it, `agent` is the
agent, `distributions` its input.
"""
