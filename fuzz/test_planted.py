"""The planted faults still fit the code, and what finds one of them is the fault itself."""

from pathlib import Path

import pytest

from fuzz.planted import FAULTS, ROOT, Fault, plant, search_for
from fuzz.targets import TARGETS


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_can_be_planted(fault: Fault, tmp_path: Path) -> None:
    assert fault.target in TARGETS
    copied = tmp_path / fault.file
    copied.parent.mkdir(parents=True)
    copied.write_text((ROOT / fault.file).read_text("utf-8"), "utf-8")
    plant(fault, tmp_path)
    assert copied.read_text("utf-8") != (ROOT / fault.file).read_text("utf-8")


def test_a_fault_is_found_and_no_fault_is_not() -> None:
    fault = next(fault for fault in FAULTS if fault.name == "a frame missing")
    assert search_for(fault, seconds=10, seed=1).line
    none = Fault("none", "conditions", fault.file, fault.right, fault.right)
    assert not search_for(none, seconds=1, seed=1).line
