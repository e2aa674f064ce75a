"""What can be searched from a seed."""

from typing import Final

from fuzz.running import Target

TARGETS: Final = {
    target.name: target
    for target in (
        Target("isolation", "a query changes and shows nothing it must not", "fuzz.isolation:run"),
        Target("conditions", "a condition touches just its rows", "fuzz.conditions:run"),
        Target("machine", "every operation, against a model of plain dicts", "fuzz.machine:run"),
        Target("storage", "power loss, failing and full disks, at every point", "fuzz.storage:run"),
    )
}
