"""The demos on Spark: `quotaform demo --fleet`, from plan to history, and `--usage`, from traffic to fitting quotas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quotaform.cli.command.sandbox import run_demo
from quotaform.cli.console import Console
from tests.workflow.command import run_process
from tests.workflow.test_demo import require_in_order

pytestmark = [pytest.mark.kafka, pytest.mark.workflow, pytest.mark.prove]


@pytest.mark.timeout(900)
def test_the_demo_of_a_fleet_runs_the_full_workflow(tmp_path: Path, connect_url: str) -> None:
    """With sessions of a server that runs: each of its commands would start Spark."""
    done = run_process("demo", "--fleet", cwd=tmp_path, env={"SPARK_REMOTE": connect_url}, timeout=840)
    assert done.code == 0, done
    expected = [
        "$ quotaform history append --all",
        "us  ",
        "1       appended",
        "$ quotaform plan --all --engine spark --principals clients.csv",
        "Report of quotaform plan: 4 clusters",
        "Clusters: 1 failed, 3 blocked",
        "Blast radius: 12 of 12 principals (clients.csv) get other limits: 12 newly limited, 2 higher.",
        "default-entity  3         eu, us, ap",
        "Cannot connect to edge: ",
        "Blast radius: 4 of 4 principals (clients.csv) get other limits",
        "$ quotaform apply --all --engine spark",
        "Clusters: 1 failed, 3 applied",
        "(exit code 6)",
        "$ quotaform history append",
        "A change outside of git",
        "$ quotaform drift --all --format report",
        "Clusters: 1 failed, 1 with drift, 2 in sync",
        "$ quotaform history show",
        "10 MiB/s",
        "20 MiB/s",
        "100 MiB/s",
        "The clusters were stopped and their data removed.",
    ]
    require_in_order(done.out, expected)
    assert "\x1b[" not in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("spark")
def test_the_demo_of_usage_is_throttled_as_it_predicts(capfd: pytest.CaptureFixture[str]) -> None:
    """With half a minute less of traffic than the command has, and in the session of the other tests."""
    run_demo(Console("never"), "usage", seconds=12)
    out = capfd.readouterr().out
    print(out)
    require_in_order(
        out,
        [
            "$ quotaform apply --auto-approve",
            "# Traffic of 12 s: checkout produces 1 MB/s, etl 4 MB/s, reports consumes what etl made.",
            "$ quotaform usage record --interval 1s --for 28s --usage before",
            "broker 1 (http://127.0.0.1:",
            "$ quotaform usage headroom --usage before",
            "Buckets, the closest to their limits first:",
            "Unused values, which limited no recorded client (1):",
            "$ quotaform usage recommend --usage before --select client-id=checkout",
            "client-id=checkout  demo     producer_byte_rate  update  10 MB/s  ",
            "Recommended: 0 to add, 1 to change, 0 to remove",
            'reason: "p99 of ',
            "$ quotaform plan --backtest before --out plan.json",
            "Backtest: 2 buckets with changed limits: 1 would have been throttled",
            "client-id=etl on broker 1  producer_byte_rate 10 MB/s -> 3 MB/s: throttled for ",
            "$ quotaform apply plan.json",
            "$ quotaform usage record --interval 1s --for 28s --usage after --quiet &",
            "$ quotaform top --once",
            "by the quota of client-id=etl (Client)",
            "$ quotaform usage headroom --usage after",
            "client-id=etl       demo     1       producer_byte_rate  throttled",
            "Headroom: 1 throttled",
            "Kafka was stopped and its data removed.",
        ],
    )
    [predicted] = re.findall(r"3 MB/s: throttled for (\d+)s", out)
    [observed] = re.findall(r"client-id=etl +demo +1 +producer_byte_rate +throttled .* (\d+)s\n", out)
    # Both are counted in samples of a second, and the clients need one to start.
    assert abs(int(predicted) - int(observed)) <= 4
    assert int(predicted) > 3
    assert "\x1b[" not in out
