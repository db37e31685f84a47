"""`quotaform demo --fleet`: three clusters and one that is down, from plan to history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.command import run_process

pytestmark = [pytest.mark.kafka, pytest.mark.workflow]


@pytest.mark.timeout(900)
def test_the_demo_of_a_fleet_runs_the_full_workflow(tmp_path: Path, connect_url: str) -> None:
    """With sessions of a server that runs: each of its commands would start Spark."""
    done = run_process("demo", "--fleet", cwd=tmp_path, env={"SPARK_REMOTE": connect_url}, timeout=840)
    assert done.code == 0, done
    expected = [
        "$ quotaform history append --all",
        "us  ",
        "1 value  appended",
        "$ quotaform plan --all --engine spark --principals clients.csv",
        "Report of quotaform plan: 4 clusters",
        "Clusters         1 failed, 3 blocked",
        "Blast radius     12 of 12 principals (clients.csv) get other limits: 12 newly limited, 2 higher.",
        "default-entity  3 clusters: eu, us, ap",
        "Cannot connect to edge: ",
        "Blast radius: 4 of 4 principals (clients.csv) get other limits",
        "$ quotaform apply --all --engine spark",
        "Clusters         1 failed, 3 applied",
        "(exit code 6)",
        "$ quotaform history append",
        "A change outside of git",
        "$ quotaform drift --all --format report",
        "Clusters         1 failed, 1 with drift, 2 in sync",
        "$ quotaform history show",
        "10 MiB/s",
        "(ended by ",
        "20 MiB/s",
        "(set by ",
        "100 MiB/s",
        "The clusters were stopped and their data removed.",
    ]
    at = 0
    for text in expected:
        found = done.out.find(text, at)
        assert found >= 0, f"{text!r} is missing after {done.out[:at][-200:]!r}"
        at = found + len(text)
    assert "\x1b[" not in done.out
    assert list(tmp_path.iterdir()) == []
