"""Both eras of the protocol, each request judged by itself (S3)."""

import importlib.metadata
from pathlib import Path

import pytest

from structmem.adapters.mcp.protocol import HANDSHAKE_VERSIONS
from tests.adapters.mcp.wire import FORM, content, envelope, served

SERVER = {
    "name": "structmem",
    "title": "Structured memory",
    "version": importlib.metadata.version("structmem"),
}
STAMP = {"io.modelcontextprotocol/serverInfo": SERVER}


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_version_of_the_handshake_is_spoken(tmp_path: Path, version: str) -> None:
    """S3"""
    with served(tmp_path / "crm.db", "--allow", "insert") as wire:
        result = wire.greet(version=version)
        assert result["protocolVersion"] == version
        assert result["capabilities"] == {"tools": {}}
        assert result["serverInfo"] == SERVER
        assert "db_query" in result["instructions"]


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "2099-01-01", ""])
def test_an_unknown_version_is_answered_with_the_latest_of_the_handshake(
    tmp_path: Path, version: str
) -> None:
    """S3"""
    with served(tmp_path / "crm.db") as wire:
        assert wire.greet(version=version)["protocolVersion"] == "2025-11-25"


def test_results_of_the_handshake_era_have_nothing_of_the_other(tmp_path: Path) -> None:
    """S3"""
    with served(tmp_path / "crm.db") as wire:
        wire.greet()
        assert wire.ask("ping")["result"] == {}
        assert set(wire.ask("tools/list")["result"]) == {"tools"}
        result = wire.call("db_query", {"sql": "SELECT 1 AS n"})
        assert set(result) == {"content", "structuredContent", "isError"}


def test_results_of_the_envelope_era_say_that_they_are_complete(tmp_path: Path) -> None:
    """S3"""
    meta = {"_meta": envelope()}
    with served(tmp_path / "crm.db", "--allow", "insert") as wire:
        discovered = wire.ask("server/discover", meta)["result"]
        assert discovered["supportedVersions"] == ["2026-07-28"]
        assert discovered["capabilities"] == {"tools": {}}
        assert "db_query" in discovered["instructions"]
        listed = wire.ask("tools/list", meta)["result"]
        for result in (discovered, listed):
            assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        called = wire.call("db_query", {"sql": "SELECT 1 AS n"}, **meta)
        pong = wire.ask("ping", meta)["result"]
        for result in (discovered, listed, called, pong):
            assert (result["resultType"], result["_meta"]) == ("complete", STAMP)


def test_a_client_that_gave_up_discovery_is_served_by_handshake(tmp_path: Path) -> None:
    """S3: its `initialize` waits behind the `server/discover` that it does not wait for any
    more."""
    with served(tmp_path / "crm.db", "--ask", "create_table") as wire:
        discovery = wire.send("server/discover", {"_meta": envelope()})
        handshake = wire.send(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": FORM, "clientInfo": {"name": "slow"}},
        )
        assert [wire.receive()["id"], wire.receive()["id"]] == [discovery, handshake]
        wire.notify("notifications/initialized")
        wire.send(
            "tools/call",
            {"name": "db_create_table", "arguments": {"table": "t", "columns": [{"name": "a"}]}},
        )
        assert wire.receive()["method"] == "elicitation/create", "the handshake's era"
        assert len(wire.leave()) == 1


def test_an_envelope_decides_for_its_request_alone(tmp_path: Path) -> None:
    """S3"""
    with served(tmp_path / "crm.db") as wire:
        wire.greet()
        assert "resultType" in wire.ask("tools/list", {"_meta": envelope()})["result"]
        assert "resultType" not in wire.ask("tools/list", {"_meta": {"progressToken": 1}})["result"]


def test_a_stamped_handshake_is_one(tmp_path: Path) -> None:
    """S3: there is no `initialize` in the other era."""
    with served(tmp_path / "crm.db") as wire:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "_meta": envelope()}
        assert wire.ask("initialize", params)["result"]["protocolVersion"] == "2025-06-18"


def test_a_client_may_call_without_a_handshake(tmp_path: Path) -> None:
    """S3: a script that pipes one call in."""
    with served(tmp_path / "crm.db") as wire:
        result = wire.call("db_query", {"sql": "SELECT 1 AS n"})
        assert content(result) == {"columns": ["n"], "rows": [[1]], "truncated": False}
