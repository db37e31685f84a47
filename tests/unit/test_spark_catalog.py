"""Where Spark puts the directory of its catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from quotaform.fleet.launch import temporary_warehouse, warehouse_options

if TYPE_CHECKING:
    from pyspark import SparkContext


class Context:
    """A context with settings, wherever they come from."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings

    def getConf(self) -> Context:  # noqa: N802 (the name of PySpark)
        return self

    def contains(self, name: str) -> bool:
        return name in self.settings

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)


@pytest.mark.parametrize(
    ("settings", "is_moved"),
    [
        ({}, True),
        ({"spark.sql.catalogImplementation": "in-memory"}, True),
        ({"spark.sql.catalogImplementation": "hive"}, False),
        ({"spark.sql.warehouse.dir": "/srv/tables"}, False),
    ],
)
def test_what_somebody_chose_stays(settings: dict[str, str], is_moved: bool) -> None:
    options = warehouse_options(cast("SparkContext", Context(**settings)), Path("/tmp/tables"))
    assert options == ({"spark.sql.warehouse.dir": "file:///tmp/tables"} if is_moved else {})


def test_the_directory_is_removed_if_nothing_was_saved_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.fleet.launch.gettempdir", lambda: str(tmp_path))
    with temporary_warehouse() as unused:
        assert not unused.exists()
    with temporary_warehouse() as empty:
        empty.mkdir()
    with temporary_warehouse() as kept:
        (kept / "limits").mkdir(parents=True)
    assert list(tmp_path.iterdir()) == [kept]
    assert len({unused, empty, kept}) == 3
