"""One Spark session for all tests that need one; what cannot start is a failure, never a skip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quotaform.sandbox import Sandbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.cluster import Standalone

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that is active while the tests run, as it is in a notebook."""
    from quotaform.spark.session import spark_session

    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes of the standalone cluster and of Spark Connect log, and what executors leave behind."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def standalone_cluster(cluster_folder: Path) -> Iterator[Standalone]:
    """A standalone master with two workers."""
    from tests.spark.cluster import standalone

    with standalone(cluster_folder) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connect_url(cluster_folder: Path) -> Iterator[str]:
    """The URL of a Spark Connect server."""
    from tests.spark.cluster import connect_server

    with connect_server(cluster_folder) as url:
        yield url


@pytest.fixture(scope="session")
def third_sandbox() -> Iterator[Sandbox]:
    """A broker that a test may pause."""
    with Sandbox() as kafka:
        yield kafka
