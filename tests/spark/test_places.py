"""What commands print and write on a standalone cluster and over Spark Connect is what they print and write here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from pyarrow import parquet

from quotaform.model.entity import Entity
from tests.builder import PRODUCER, REQUEST
from tests.spark.test_plan import write_snapshot
from tests.spark.test_resolve_command import LIMIT, PRINCIPALS, local_limits
from tests.workflow.command import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.workflow]

ALICE, APP = Entity(user="alice"), Entity(client_id="app")
ENV: Final = {"SOURCE_DATE_EPOCH": "1795000000"}
SPARK: Final = ("--engine", "spark")


@pytest.fixture(params=["standalone", "connect"])
def place(request: pytest.FixtureRequest) -> Any:
    """What runs commands on a standalone cluster, or over Spark Connect."""
    return request.getfixturevalue(request.param)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, in any order."""
    return sorted(parquet.read_table(folder).to_pylist(), key=repr)


def resolving(folder: Path) -> Repository:
    """A cluster with quotas, and principals who ask for theirs."""
    made = Repository(folder)
    made.config("clusters:\n  lab: {snapshot: lab.json}\n")
    quotas = {
        ALICE: {PRODUCER: 5.0, "future_rate": 2.0},
        Entity(user=None): {REQUEST: 1.0},
        APP: {REQUEST: 2.0, PRODUCER: 2.0**63},
        Entity(ip="::ffff:10.0.0.1"): {"connection_creation_rate": 7.0},
    }
    write_snapshot(folder / "lab.json", quotas)
    made.write("principals.csv", PRINCIPALS)
    return made


def test_principals_are_resolved_as_in_one_process(tmp_path: Path, place: CommandProcess) -> None:
    repository = resolving(tmp_path)
    asked = ("resolve", "--cluster", "lab", "--from", "principals.csv")
    local = repository(*asked, "--format", "csv", env=ENV)
    printed = place.run(repository, *asked, "--format", "csv", *SPARK, env=ENV)
    assert (printed.code, printed.out, printed.err) == (0, local.out, local.err)
    written = place.run(repository, *asked, *SPARK, "--out", "parquet=resolved")
    assert (written.code, written.err) == (0, "")
    assert "Resolved 5 clients and 2 addresses: 24 rows in resolved" in written.out
    found = [tuple(row[name] for name in LIMIT) for row in rows_of(tmp_path / "resolved")]
    assert sorted(found, key=repr) == sorted((row for row, _ in local_limits(repository)), key=repr)
