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

SHORT = (
    "test_apply.py::test_saved_plans_leave_what_the_local_engine_leaves",
    "test_blast_radius.py::test_the_rows_the_counts_and_the_largest_are_those_of_the_local_engine",
    "test_broker.py",
    "test_command.py",
    "test_failure.py",
    "test_fleet.py",
    "test_history_table.py::test_a_late_snapshot_is_inserted_into_the_past_and_a_known_one_changes_nothing",
    "test_kept_rows.py",
    "test_plan.py",
    "test_principals.py",
    "test_resolved.py::test_each_principal_resolves_as_in_one_process",
    "test_resolved.py::test_the_principals_are_not_shuffled_and_python_sees_none_of_them",
    "test_session.py",
    "test_source.py",
    "test_tables.py",
)
"""How the names of the tests begin that `make check` runs; all others are marked `fleet`, and take half an hour."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if not item.nodeid.rpartition("/")[2].startswith(SHORT):
                item.add_marker(pytest.mark.fleet)


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
