"""Power loss at every point of a workload: before each call that changes the disk."""

from random import Random
from typing import Final

from fuzz.disk import Event
from fuzz.recording import Recording
from fuzz.running import Verdicts
from fuzz.survival import Files, Platter, Policy
from fuzz.survivors import Survivors, difference
from fuzz.workloads import State

THE_END: Final = "the end"


def lose_power(seed: int, recording: Recording, survivors: Survivors, verdicts: Verdicts) -> None:
    """Try all points by all policies. Raises what is wrong."""
    platter = Platter()
    for point, event in enumerate([*recording.events, None]):
        for policy in Policy:
            files = platter.surviving(policy, Random(f"{seed} {point} {policy}"))
            for how in _judged(recording, survivors, point, policy, files):
                verdicts[f"power loss at {_place(event)}: {how}"] += 1
        if event is not None:
            platter.take(event)


def _place(event: Event | None) -> str:
    return type(event).__name__.lower() if event is not None else THE_END


def _judged(
    recording: Recording, survivors: Survivors, point: int, policy: Policy, files: Files
) -> list[str]:
    judged: list[str] = []
    for file in recording.names:
        try:
            judged.append(_judgement(recording, survivors, point, file, files))
        except Exception as error:
            error.add_note(f"power loss at point {point}; {policy} survives; looking at {file}")
            raise
    return judged


def _judgement(
    recording: Recording, survivors: Survivors, point: int, file: str, files: Files
) -> str:
    """Raises unless what is found may be there at this point."""
    before, after = _allowed(recording, point, file)
    found = survivors.found(file, files)
    if before is not None and found.state.whole == before.whole:
        return "as reported"
    if found.is_new:
        assert before is None, "all of the memory is lost"
        return "not there yet"
    assert after is not None and found.state.whole == after.whole, difference(
        found.state, before, after
    )
    return "the operation under way is there"


def _allowed(recording: Recording, point: int, file: str) -> tuple[State | None, State | None]:
    """The state that was reported last, and the one under way (or the same)."""
    mine = [spell for spell in recording.spells if spell.step.file == file]
    reported = [spell.after for spell in mine if spell.end <= point]
    under_way = [spell.after for spell in mine if spell.begin < point < spell.end]
    before = reported[-1] if reported else None
    return before, under_way[0] if under_way else before
