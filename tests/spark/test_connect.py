"""Over Spark Connect: there is no Java process here, and the server knows nothing of this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.spark.broker_fleet import BrokerFleet
    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.kafka, pytest.mark.workflow]


def test_a_session_computes_on_the_server_and_ships_files_to_it(connect_url: str, connect: CommandProcess) -> None:
    answer = connect.ask(remote=connect_url, conf={"spark.sql.shuffle.partitions": "3"})
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == {
        "is_connect": True,
        "master": "local[2]",
        "partitions": "3",
        "sum": 20,
        "texts": ["seen"],
        "is_copied": True,
    }


def test_a_setting_of_the_server_is_refused(connect_url: str, connect: CommandProcess) -> None:
    done = connect.ask(env={"SPARK_REMOTE": connect_url}, conf={"spark.executor.memory": "1g"})
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "The Spark Connect server does not change spark.executor.memory for a session; set it where the server is "
        "started, or leave --spark-conf out.\n"
    )


def test_plans_are_those_of_the_local_engine(connect: CommandProcess, broker_fleet: BrokerFleet) -> None:
    broker_fleet.require_same(broker_fleet.plan_by(connect, "spark"), "spark")
