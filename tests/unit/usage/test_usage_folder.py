"""Rows that Spark writes somewhere else than this process looks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from quotaform.model.errors import EngineError
from quotaform.usage.table.append import add_rows


def rows_of(*files: int) -> Any:
    """A DataFrame whose executors leave so many rows in each file that this process sees."""

    def write(path: str) -> None:
        folder = Path(path.removeprefix("file://"))
        if files:
            folder.mkdir()
        for number, count in enumerate(files):
            parquet.write_table(pyarrow.table({"ts": range(count)}), folder / f"part-{number}.parquet")

    session = SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: False))
    return SimpleNamespace(
        sparkSession=session, write=SimpleNamespace(partitionBy=lambda: SimpleNamespace(parquet=write))
    )


def test_rows_that_are_all_there_are_added(tmp_path: Path) -> None:
    add_rows(rows_of(2, 3), str(tmp_path / "usage"), 5, prefix="usage")
    assert parquet.read_table(tmp_path / "usage").num_rows == 5


@pytest.mark.parametrize("files", [(), (2,)])
def test_rows_that_are_on_another_machine_are_not_taken_for_added(tmp_path: Path, files: tuple[int, ...]) -> None:
    """Executors that wrote to disks of their own lost the rows in silence, and a server ended with a traceback."""
    found = sum(files)
    with pytest.raises(EngineError, match=rf"Spark wrote 5 rows to .*usage, and {found} of them are there"):
        add_rows(rows_of(*files), str(tmp_path / "usage"), 5, prefix="usage")
    assert not (tmp_path / "usage").exists()
