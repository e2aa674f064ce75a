"""The scripted agent: the calls that a model would make, with the reasons it would give.

Each call has a call id. When the process is killed and started again, the agent simply runs its
script from the top: what was done before answers with its first result and is not done twice.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from structmem import Column, Reference, StructMemError, StructuredMemory, WriteResult
from structmem_replicator import publish
from structmem_replicator.demo.distributions import Distribution, installed

MEMORY = "packages.db"
REPLICATED_WITHIN_S = 30.0

Step = Callable[[str], WriteResult]

QUESTION = """
SELECT p.name, count(DISTINCT r.package) AS needed_by, p.files, p.kilobytes
FROM requirements AS r
JOIN (
  SELECT packages.name, count(*) AS files, sum(size) / 1024 AS kilobytes
  FROM packages JOIN files ON files.package = packages.name GROUP BY packages.name
) AS p ON p.name = r.needs
GROUP BY p.name ORDER BY needed_by DESC, p.name LIMIT 5
"""


class Agent:
    """Keeps the distributions in `memory`, telling each thing it does."""

    def __init__(self, memory: StructuredMemory, tell: Callable[[str], None]) -> None:
        self._memory = memory
        self._tell = tell

    def work(self, distributions: list[Distribution]) -> None:
        repeated = 0
        for name, step in self._writes(distributions):
            done = step(f"demo/{name}")
            repeated += done.repeated
            if not done.repeated:
                self._tell_repeated(repeated)
                repeated = 0
                self._tell(f"{done.op_id or '-':>6}  {name}: {done.rows_changed} rows")
        self._tell_repeated(repeated)
        self._try_injections()
        self._tell("Which packages do most others need, and how much do they bring?")
        for row in self._memory.query(QUESTION).dicts():
            self._tell(
                "        {name}: needed by {needed_by}, {files} files, {kilobytes} kB".format(**row)
            )

    def _tell_repeated(self, count: int) -> None:
        if count:
            self._tell(f"     -  {count} calls were done before the kill: their call ids say so")

    def _writes(self, distributions: list[Distribution]) -> Iterator[tuple[str, Step]]:
        yield from self._tables()
        yield (
            "packages",
            lambda call_id: self._memory.insert(
                "packages",
                [
                    {"name": d.name, "version": d.version, "summary": d.summary}
                    for d in distributions
                ],
                reason="Everything that is installed here.",
                call_id=call_id,
            ),
        )
        yield (
            "requirements",
            lambda call_id: self._memory.insert(
                "requirements",
                [
                    {"package": d.name, "needs": r.needs, "spec": r.text, "marker": r.marker}
                    for d in distributions
                    for r in d.requirements
                ],
                reason="Who needs whom.",
                call_id=call_id,
            ),
        )
        for d in distributions:
            yield (
                f"files of {d.name}",
                lambda call_id, d=d: self._memory.insert(
                    "files",
                    [{"package": d.name, "path": f.path, "size": f.size} for f in d.files],
                    reason=f"The files of {d.name} {d.version}.",
                    call_id=call_id,
                ),
            )
        yield from self._corrections()

    def _tables(self) -> Iterator[tuple[str, Step]]:
        package = Reference("packages", "name", on_delete="CASCADE")
        yield (
            "table packages",
            lambda call_id: self._memory.create_table(
                "packages",
                [
                    Column("name", "TEXT", not_null=True, unique=True, description="normalized"),
                    Column("version", "TEXT", not_null=True),
                    Column("summary", "TEXT"),
                    Column("kind", "TEXT", not_null=True, default="library"),
                ],
                description="Python distributions installed here.",
                reason="To answer questions about what is installed.",
                call_id=call_id,
            ),
        )
        yield (
            "table requirements",
            lambda call_id: self._memory.create_table(
                "requirements",
                [
                    Column("package", "TEXT", not_null=True, references=package),
                    Column("needs", "TEXT", not_null=True, description="may not be installed"),
                    Column("spec", "TEXT", not_null=True),
                    Column("marker", "TEXT", description="when it is needed, if not always"),
                ],
                call_id=call_id,
            ),
        )
        yield (
            "table files",
            lambda call_id: self._memory.create_table(
                "files",
                [
                    Column("package", "TEXT", not_null=True, references=package),
                    Column("path", "TEXT", not_null=True),
                    Column("size", "INTEGER", description="bytes"),
                ],
                call_id=call_id,
            ),
        )

    def _corrections(self) -> Iterator[tuple[str, Step]]:
        yield (
            "commands are tools",
            lambda call_id: self._memory.update(
                "packages",
                {"kind": "tool"},
                "name IN (SELECT package FROM files WHERE path LIKE ?)",
                ["%/bin/%"],
                reason="A package that installs a command is a tool.",
                call_id=call_id,
            ),
        )
        yield (
            "no bytecode",
            lambda call_id: self._memory.delete(
                "files",
                "path LIKE '%.dist-info/%' OR path LIKE '%.pyc'",
                reason="Bytecode and the installer's notes are not part of a package.",
                call_id=call_id,
            ),
        )
        yield (
            "a mistake",
            lambda call_id: self._memory.delete(
                "requirements", "true", reason="Clearing what is optional.", call_id=call_id
            ),
        )
        yield (
            "take it back",
            lambda call_id: self._memory.undo(
                reason="That deleted every requirement, not the optional ones.", call_id=call_id
            ),
        )
        yield (
            "what was meant",
            lambda call_id: self._memory.delete(
                "requirements",
                "marker LIKE ?",
                ["%extra%"],
                reason="Optional requirements say nothing about what is needed.",
                call_id=call_id,
            ),
        )

    def _try_injections(self) -> None:
        """What a prompt injection would make of it; each must be refused."""
        condition, sql = "name = 'x') OR (1", "SELECT 1; DELETE FROM packages"
        attempts: list[tuple[str, Callable[[], object]]] = [
            (f"delete where {condition}", lambda: self._memory.delete("packages", condition)),
            (f"query {sql}", lambda: self._memory.query(sql)),
        ]
        for text, attempt in attempts:
            try:
                attempt()
            except StructMemError as error:
                self._tell(f"refused  {text}\n         {error}")
            else:
                raise SystemExit(f"not refused: {text}")


def main() -> None:
    """`python -m structmem_replicator.demo.agent DIRECTORY URL`: work, and publish meanwhile."""
    directory, url = sys.argv[1:]
    path = Path(directory) / MEMORY
    with StructuredMemory(path, actor="package-agent") as memory, publish(memory, url) as publisher:
        Agent(memory, lambda line: print(line, flush=True)).work(installed())
        publisher.wait_for(memory.position(), REPLICATED_WITHIN_S)


if __name__ == "__main__":
    main()
