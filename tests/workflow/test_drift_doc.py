"""docs/drift.md: what it shows is what happens."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from quotaform.drift.alert import sign
from quotaform.model.text import Secret
from tests.git_repository import GitRepository
from tests.markdown import ROOT, blocks
from tests.workflow.command import Repository
from tests.workflow.test_docs import calm

pytestmark = pytest.mark.workflow

BLOCKS = list(blocks(ROOT / "docs" / "drift.md"))
SNAPSHOT = """{"format_version": "1.0", "kind": "quotaform.snapshot",
"cluster": {"name": "lab", "id": "3JxQ0v7pT2aXXXXXXXXXXX"}, "captured_at": "2026-11-20T00:00:00Z", "quotas": [
{"entity": {"user": "svc-orders"}, "values": {"producer_byte_rate": 20971520}},
{"entity": {"user": "svc-audit"}, "values": {"consumer_byte_rate": 83886080}},
{"entity": {"user": "adhoc"}, "values": {"producer_byte_rate": 1048576}},
{"entity": {"user": "perf-1"}, "values": {"producer_byte_rate": 104857600}}]}
"""
CONFIG = """clusters:
  lab: {snapshot: lab.json}
drift_ignore:
- {match: {user: "perf-*"}, reason: load test of the new brokers, expires: 2999-12-31}
"""
QUOTAS = """quotas:
  - match: {user: svc-orders}
    values: {producer_byte_rate: 20MiB/s}
  - match: {user: svc-audit}
    values: {consumer_byte_rate: 16MiB/s}
    owner: team-audit
  - match: {user: perf-1}
    values: {producer_byte_rate: 10MiB/s}
"""


def test_drift_prints_what_is_printed(offline: Repository) -> None:
    (session,) = (block for block in BLOCKS if block.is_session)
    offline.config(CONFIG)
    offline.write("lab.json", SNAPSHOT)
    offline.quotas(QUOTAS, "teams.yaml")
    git = GitRepository(offline.path)
    git.git("init", "-q", "-b", "main")
    commit = git.commit()
    git.git("tag", "applied")
    offline.quotas(QUOTAS.replace("20MiB", "40MiB"), "teams.yaml")
    (command,), (printed,) = session.commands, session.printed
    result = offline(*command.split()[1:])
    assert result.code == 2
    assert calm(result.out).splitlines() == calm("\n".join(printed)).replace("5c1f0a2", commit[:7]).splitlines()


def test_the_function_that_verifies_a_signature_works() -> None:
    (block,) = (block for block in BLOCKS if block.language == "python")
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102
    is_genuine = names["is_genuine"]
    now = datetime.now(UTC)
    header = sign(b'{"a":1}', Secret("key"), now)
    assert is_genuine(header, b'{"a":1}', "key")
    assert not is_genuine(header, b'{"a":2}', "key")
    assert not is_genuine(header, b'{"a":1}', "other")
    assert not is_genuine(sign(b"{}", Secret("key"), datetime.fromtimestamp(time.time() - 301, UTC)), b"{}", "key")
    for damaged in ("", "t=,v1=", "v1=x", "t=1", "t=x,v1=y", header.replace("v1=", "v1=0")):
        assert not is_genuine(damaged, b'{"a":1}', "key")
