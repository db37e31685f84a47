"""Over Spark Connect: there is no Java process here, and the server knows nothing of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.sandbox import Sandbox
from tests.spark.broker_fleet import BrokerFleet
from tests.spark.query import ask, asked

pytestmark = [pytest.mark.kafka, pytest.mark.workflow]


def test_a_session_computes_on_the_server_and_ships_files_to_it(connect_url: str) -> None:
    # Nothing of Java is needed here.
    answer = ask(
        remote=connect_url, conf={"spark.sql.shuffle.partitions": "3"}, env={"JAVA_HOME": "/nowhere", "PATH": ""}
    )
    assert answer == {
        "is_connect": True,
        "master": "local[2]",
        "partitions": "3",
        "sum": 20,
        "texts": ["seen"],
        "is_copied": True,
    }


def test_a_setting_of_the_server_is_refused(connect_url: str) -> None:
    done = asked(conf={"spark.executor.memory": "1g"}, env={"SPARK_REMOTE": connect_url})
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "The Spark Connect server does not change spark.executor.memory for a session; set it where the server is "
        "started, or leave --spark-conf out.\n"
    )


def test_plans_are_those_of_the_local_engine(
    connect_url: str, tmp_path: Path, sandbox: Sandbox, secured_sandbox: Sandbox, third_sandbox: Sandbox
) -> None:
    fleet = BrokerFleet(tmp_path, sandbox, secured_sandbox, third_sandbox)
    fleet.require_same(fleet.plan("spark", "--remote", connect_url), "spark")
