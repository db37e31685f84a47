"""Lints as a team meets them: warnings of validate and plan, ignored in quotaform.yaml with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workflow.command import run
from tests.workflow.test_policy import SNAPSHOT

pytestmark = pytest.mark.workflow

QUOTAS = """\
quotas:
  - match: {client-id: [etl, app]}
    values: {producer_byte_rate: 1MiB/s}
  - match: {user: <default>}
    values: {producer_byte_rate: 10, request_percentage: 50%}
"""
SHADOWED = (
    "producer_byte_rate never applies: every request that client-id=etl matches has its value from user=<default>; "
    "remove it here or there"
)
BROKERS = (
    "it also limits the brokers' own principals, unless they have entries of their own; list them in "
    "principals.brokers of quotaform.yaml, so that this can be checked"
)
UNIT = "producer_byte_rate: 10 is 10 bytes per second; write 10B/s if that is meant, else a unit as in 10MiB/s"


def write(folder: Path, config: str = "") -> Path:
    (folder / "quotas.d").mkdir()
    (folder / "quotas.d/a.yaml").write_text(QUOTAS, encoding="utf-8")
    (folder / "lab.json").write_text(json.dumps(SNAPSHOT), encoding="utf-8")
    text = f"clusters:\n  lab: {{snapshot: lab.json, capacity: {{request_percentage: 40%}}}}\n{config}"
    (folder / "quotaform.yaml").write_text(text, encoding="utf-8")
    return folder


def test_validate_warns_and_exits_0(tmp_path: Path) -> None:
    result = run("validate", cwd=write(tmp_path))

    assert result.code == 0
    assert result.out.splitlines() == [
        "quotaform.yaml:2:40: warning: the request_percentage of 1 entry adds up to 50% per broker, above the declared "
        "capacity of 40% (1 of them for each user, client-id or address without its own, counted once); lower some, or "
        "correct the capacity [over-capacity]",
        f"quotas.d/a.yaml:2:5: warning: client-id=app: {SHADOWED.replace('etl', 'app')} [shadowed-entry]",
        f"quotas.d/a.yaml:2:5: warning: client-id=etl: {SHADOWED} [shadowed-entry]",
        f"quotas.d/a.yaml:4:5: note: user=<default>: {BROKERS} [default-user-brokers]",
        f"quotas.d/a.yaml:5:14: warning: user=<default>: {UNIT} [suspicious-unit]",
        "Valid: 1 file in quotas.d, 3 entities for lab.",
    ]
    assert run("validate", "--quiet", cwd=tmp_path).out == "Valid: 1 file in quotas.d, 3 entities for lab.\n"


def test_ignores_take_findings_away_and_one_without_use_is_a_note(tmp_path: Path) -> None:
    config = """\
principals: {brokers: [kafka]}
lints:
  ignore:
    - {rule: shadowed-entry, address: client-id=etl, reason: known}
    - {rule: suspicious-unit, match: {user: <default>}, reason: known}
    - {rule: over-capacity, reason: known}
    - {rule: expires-soon, reason: left over}
    - {rule: default-user-brokers, reason: known, expires: 2020-01-01}
"""
    result = run("validate", cwd=write(tmp_path, config))

    assert result.code == 0
    assert result.out.splitlines() == [
        'quotaform.yaml:9:7: note: this ignore of expires-soon ("left over") ignores nothing in the files; remove it '
        "[lint-ignore-unused]",
        'quotaform.yaml:10:7: warning: this ignore of default-user-brokers ("known") expired 2020-01-01; remove it, or '
        "set a later date [lint-ignore-expired]",
        f"quotas.d/a.yaml:2:5: warning: client-id=app: {SHADOWED.replace('etl', 'app')} [shadowed-entry]",
        "quotas.d/a.yaml:4:5: warning: user=<default>: it also limits the broker principal kafka (producer_byte_rate, "
        "request_percentage); declare user=kafka with values of its own, such as unlimited [default-user-brokers]",
        "Valid: 1 file in quotas.d, 3 entities for lab.",
    ]
    assert "lint-ignore-unused" not in run("plan", cwd=tmp_path).out


def test_drift_makes_no_lints(tmp_path: Path) -> None:
    result = run("drift", "--format", "json", cwd=write(tmp_path))

    assert result.code == 2
    assert "shadowed-entry" not in result.out
