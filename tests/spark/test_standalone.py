"""On a standalone cluster: the executors are other processes, which have their own files and may be killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.spark.cluster import CONF
from tests.waiting import once, wait_until
from tests.workflow.command import run_process

if TYPE_CHECKING:
    from tests.spark.broker_fleet import BrokerFleet
    from tests.spark.cluster import Standalone
    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.kafka, pytest.mark.workflow]

SUBMITTED = """\
from quotaform.cli.main import main

main()
"""


def test_a_session_computes_on_the_executors_and_ships_files_to_them(
    standalone_cluster: Standalone, standalone: CommandProcess
) -> None:
    answer = standalone.ask()
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == {
        "is_connect": False,
        "master": standalone_cluster.url,
        "partitions": "3",
        "sum": 20,
        "texts": ["seen"],
        "is_copied": True,
    }


def test_an_executor_that_is_killed_changes_nothing_of_a_plan(
    standalone_cluster: Standalone, standalone: CommandProcess, broker_fleet: BrokerFleet
) -> None:
    # It sends a file that is gone before any executor has fetched it.
    assert standalone.ask().code == 0
    started = standalone_cluster.started_executors()

    def kill() -> None:
        try:
            standalone_cluster.kill_busy_executor()
        finally:
            broker_fleet.paused.resume(1)

    # One task waits for its broker, so that the job is not over when the executor is killed.
    broker_fleet.paused.pause(1)
    killing = once(lambda: True, kill)
    try:
        result = broker_fleet.plan_by(standalone, "spark")
    finally:
        killing.join()
    broker_fleet.require_same(result, "spark")
    # Another one takes its place. It fetched what had been sent before, which was gone, and failed every task.
    wait_until(lambda: standalone_cluster.started_executors() > started)
    later = standalone.ask()
    assert later.code == 0, later.err


def test_spark_submit_chooses_the_master(standalone_cluster: Standalone, broker_fleet: BrokerFleet) -> None:
    started = standalone_cluster.started_executors()
    program = broker_fleet.repository.write("job.py", SUBMITTED)
    conf = {**CONF, "spark.cores.max": "1", "spark.log.level": "WARN"}
    settings = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    result = run_process(
        *("--master", standalone_cluster.url, *settings),
        *(str(program), *broker_fleet.arguments("spark"), "--engine", "spark"),
        cwd=broker_fleet.repository.path,
        env={**broker_fleet.env, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        command=submit,
    )
    # Java says more than the command does.
    assert result.code == 2
    broker_fleet.require_same_files("spark")
    assert standalone_cluster.started_executors() - started == 1
