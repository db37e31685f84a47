"""One Spark session for all tests that need one; what cannot start is a failure, never a skip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quotaform.cluster.kafka import KafkaGateway
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.sandbox import Sandbox
from tests.faulty_sandbox import FaultySandbox
from tests.spark import cluster as servers
from tests.spark.command_process import CommandProcess, command_process
from tests.spark.shared_classes import CONF
from tests.workflow.command import Cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that is active while the tests run, as it is in a notebook."""
    with spark_session(SessionOptions(conf=CONF)) as session:
        yield session


@pytest.fixture(scope="session")
def standalone_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[servers.Standalone, CommandProcess]]:
    """A standalone master with two workers, and a process with a session on it that runs commands."""
    folder = tmp_path_factory.mktemp("cluster")
    log = folder / "session.log"
    with (
        servers.standalone(folder) as cluster,
        # It starts while the workers do. Another Spark that is installed here is not the one that runs.
        command_process(cluster.session, {"SPARK_HOME": "/nowhere"}, log) as process,
    ):
        cluster.wait()
        yield cluster, CommandProcess(process, log)


@pytest.fixture(scope="session")
def standalone_cluster(standalone_session: tuple[servers.Standalone, CommandProcess]) -> servers.Standalone:
    """The standalone cluster."""
    return standalone_session[0]


@pytest.fixture(scope="session")
def standalone(standalone_session: tuple[servers.Standalone, CommandProcess]) -> CommandProcess:
    """What runs commands in a session on the standalone cluster."""
    return standalone_session[1]


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server."""
    with servers.connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="session")
def connect(connect_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandProcess]:
    """What runs commands over Spark Connect, each in a session of its own; it has no Java."""
    log = tmp_path_factory.mktemp("client") / "client.log"
    with command_process(None, {"JAVA_HOME": "/nowhere", "PATH": ""}, log) as process:
        yield CommandProcess(process, log, ("--remote", connect_url))


@pytest.fixture(scope="session")
def third_sandbox() -> Iterator[FaultySandbox]:
    """A broker that a test may pause."""
    with FaultySandbox() as kafka:
        yield kafka


@pytest.fixture
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    """The shared broker, empty before and after."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        cluster = Cluster(gateway)
        cluster.wipe()
        yield cluster
        cluster.wipe()


@pytest.fixture
def same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be made at one time, so that the documents of both engines are equal."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")
