"""On a standalone cluster: the executors are other processes, which have their own files and may be killed."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pyspark
import pytest

from quotaform.sandbox import Sandbox
from tests.spark.broker_fleet import SAME_TIME, BrokerFleet
from tests.spark.cluster import CONF
from tests.spark.query import ask
from tests.workflow.command import run_process

if TYPE_CHECKING:
    from tests.spark.cluster import Standalone

pytestmark = [pytest.mark.kafka, pytest.mark.workflow]

SUBMITTED = """\
from quotaform.cli.main import main

main()
"""


@pytest.fixture
def fleet(tmp_path: Path, sandbox: Sandbox, secured_sandbox: Sandbox, third_sandbox: Sandbox) -> BrokerFleet:
    return BrokerFleet(tmp_path, sandbox, secured_sandbox, third_sandbox)


def test_a_session_computes_on_the_executors_and_ships_files_to_them(standalone_cluster: Standalone) -> None:
    settings = {**CONF, "spark.sql.shuffle.partitions": "3"}
    # Another Spark that is installed here is not the one that runs.
    answer = ask(master=standalone_cluster.url, conf=settings, env={"SPARK_HOME": "/nowhere"})
    assert answer == {
        "is_connect": False,
        "master": standalone_cluster.url,
        "partitions": "3",
        "sum": 20,
        "texts": ["seen"],
        "is_copied": True,
    }


def test_an_executor_that_is_killed_changes_nothing_of_a_plan(
    standalone_cluster: Standalone, fleet: BrokerFleet
) -> None:
    started = standalone_cluster.started_executors()

    def kill() -> None:
        try:
            standalone_cluster.kill_busy_executor()
        finally:
            fleet.paused.resume(1)

    # One task waits for its broker, so that the job is not over when the executor is killed.
    fleet.paused.pause(1)
    killing = Thread(target=kill)
    killing.start()
    try:
        result = fleet.plan("spark", *standalone_cluster.options)
    finally:
        killing.join()
    fleet.require_same(result, "spark")
    # Two workers with one core each: the third executor took the place of the one that was killed.
    assert standalone_cluster.started_executors() - started == 3


def test_spark_submit_chooses_the_master(standalone_cluster: Standalone, fleet: BrokerFleet) -> None:
    program = fleet.repository.write("job.py", SUBMITTED)
    settings = [text for name, value in CONF.items() for text in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    place = ("--master", standalone_cluster.url, "--conf", "spark.log.level=WARN", *settings)
    result = run_process(
        *(*place, str(program), *fleet.arguments("spark"), "--engine", "spark"),
        cwd=fleet.repository.path,
        env=SAME_TIME | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        command=submit,
    )
    assert result.code == 2
    fleet.plan("local")
    for name in ("open", "secured", "paused"):
        assert fleet.repository.read(f"spark/{name}.json") == fleet.repository.read(f"local/{name}.json")
