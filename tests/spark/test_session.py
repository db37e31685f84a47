"""Which session is used, and what is said when it cannot be had."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import grpc
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quotaform.fleet.launch import classic_session, connect_session
from quotaform.fleet.options import Master, Remote, SessionOptions
from quotaform.fleet.session import is_connect, require_spark, spark_session
from quotaform.model.errors import EngineError, UsageError


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address at which something listens that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_session_that_exists_is_used_as_it_is_and_goes_on(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.getConf().getAll())
    with spark_session() as session:
        assert session is spark
        assert not is_connect(session)
    assert dict(spark.sparkContext.getConf().getAll()) == before
    assert spark.range(3).count() == 3


def test_a_master_that_does_not_answer_is_named_at_once(nobody: str) -> None:
    """PySpark tries for a minute and ends with the stack trace of a stopped SparkContext."""
    master = Master.parse("{master}", f"spark://{nobody}")
    with pytest.raises(EngineError) as raised, classic_session(master, {}):
        pass
    assert str(raised.value) == (
        f"The Spark master spark://{nobody} does not answer ({nobody}: Connection refused); check that it runs and "
        "that this machine may connect to it, or correct --master."
    )


@pytest.mark.parametrize("place", ["nobody", "silent"])
def test_a_connect_server_that_does_not_answer_is_named_without_its_token(
    place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark tries for ten minutes."""
    monkeypatch.setattr("quotaform.fleet.launch._PATIENCE", 0.2)
    address = request.getfixturevalue(place)
    remote = Remote.parse("SPARK_REMOTE", f"sc://{address}/;token=hunter2;use_ssl=true")
    with pytest.raises(EngineError) as raised, connect_session(remote, {}):
        pass
    assert str(raised.value).startswith(f"The Spark Connect server sc://{address} does not answer; check that it runs")
    assert "hunter2" not in str(raised.value)
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_a_variable_that_holds_no_url_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "spark://host:7077")
    with pytest.raises(UsageError, match=r"^SPARK_REMOTE: this is not the URL of a Spark Connect server"):
        require_spark()
    # An option takes precedence over it.
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    require_spark(SessionOptions(master="local[2]"))


class KeepsItsSettings:
    """A session of a server that lets nobody change its settings."""

    version = pyspark.__version__
    is_stopped = False

    def __init__(self) -> None:
        self.conf = self.client = self

    def set_retry_policies(self, _: object) -> None:
        pass

    def set(self, name: str, value: str) -> None:
        raise PySparkException(f"[CONFIG_NOT_AVAILABLE] {name}={value}")

    def config(self, *_: str) -> Self:
        return self

    def create(self) -> Self:
        return self

    def stop(self) -> None:
        self.is_stopped = True


def test_a_server_that_keeps_its_settings_is_used_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting was refused that nobody had given: how tables have times."""
    own = KeepsItsSettings()
    monkeypatch.setattr("pyspark.sql.connect.session.SparkSession.builder", own)
    server = grpc.server(ThreadPoolExecutor(1))
    remote = Remote.parse("{remote}", f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    try:
        with connect_session(remote, {}) as session:
            assert session is own  # type: ignore[comparison-overlap]
    finally:
        server.stop(None)
    assert own.is_stopped
