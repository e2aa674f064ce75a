"""Power loss, failing and full disks, at every point of a short workload.

A round draws a workload (`fuzz.workloads`), does it once on a disk that notes everything
(`fuzz.disk`), and then tries every point.

Invariants checked, for power loss before each call that changes the disk, by each policy of what
survives (`fuzz.survival`):

- What survives opens, and `verify(deep=True)` passes.
- All of the file is as it was after some operation: the last one that was reported, or the one that
  was being done. Nothing is there by half, and nothing that was reported is lost.
- Writes, undo and redo work on it; a replica takes the rest of the records.

For an I/O error or a full disk at each call of each operation, and of opening, reading and closing,
once or from then on:

- The error is one of ours, and the memory is as before. If there is none, all of it is done.
- It stays so for whoever comes after a death of the process at that moment, and after a power loss.
  Where the disk goes on failing, nothing can be taken back on it: then the operation may be there
  afterwards, whole.
- With the disk well again the same memory does the same operation, and verifies.
"""

from pathlib import Path

from fuzz.failures import Failures, reading
from fuzz.power_loss import lose_power
from fuzz.recording import record
from fuzz.running import Verdicts
from fuzz.survivors import Survivors


def run(seed: int, directory: Path, verdicts: Verdicts) -> None:
    recording = record(seed, directory)
    verdicts["points"] += len(recording.events)
    survivors = Survivors(directory, recording.memory_id, recording.records, verdicts)
    lose_power(seed, recording, survivors, verdicts)
    for spell in (*recording.spells, *reading(recording, directory)):
        Failures(seed, directory, recording, spell, survivors, verdicts).sweep()
