"""Fixtures of the replicator's tests: a real nats-server, and streams of both kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from structmem_replicator import MemoryStream
from structmem_replicator.server import EmbeddedServer
from tests.replicator.support import InProcess, OnServer, StreamUnderTest


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "jetstream") as server:
        yield server


@pytest.fixture
def on_server(server: EmbeddedServer, tmp_path: Path) -> OnServer:
    return OnServer(server, tmp_path)


@pytest.fixture(params=["memory", "jetstream"])
def stream(request: pytest.FixtureRequest) -> StreamUnderTest:
    """Each test that takes this runs on both transports."""
    if request.param == "memory":
        return InProcess(MemoryStream())
    on_server: OnServer = request.getfixturevalue("on_server")
    return on_server
