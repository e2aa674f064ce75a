"""What Python knows about the distributions installed in this environment."""

import re
from collections.abc import Iterator
from importlib import metadata

from msgspec import Struct


class Requirement(Struct, frozen=True):
    """Another distribution that is needed; `marker` says when (PEP 508), if not always."""

    needs: str
    text: str
    marker: str | None


class File(Struct, frozen=True):
    """An installed file; `size` in bytes, None where the installer did not write it down."""

    path: str
    size: int | None


class Distribution(Struct, frozen=True):
    name: str
    version: str
    summary: str | None
    requirements: list[Requirement]
    files: list[File]


def installed() -> list[Distribution]:
    """Every distribution, by normalized name; of one that is found twice, the first."""
    found: dict[str, Distribution] = {}
    for entry in metadata.distributions():
        distribution = _read(entry)
        found.setdefault(distribution.name, distribution)
    return [found[name] for name in sorted(found)]


def _read(entry: metadata.Distribution) -> Distribution:
    files = [File(str(path), path.size) for path in entry.files or []]
    return Distribution(
        name=_normalized(entry.name),
        version=entry.version,
        summary=next(iter(entry.metadata.get_all("Summary") or ()), None),
        requirements=list(_requirements(entry.requires or [])),
        files=sorted(files, key=lambda file: file.path),
    )


def _requirements(lines: list[str]) -> Iterator[Requirement]:
    for line in lines:
        text, _, marker = line.partition(";")
        name = re.match(r"[A-Za-z0-9._-]+", text)
        if name is not None:
            yield Requirement(_normalized(name[0]), text.strip(), marker.strip() or None)


def _normalized(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()
