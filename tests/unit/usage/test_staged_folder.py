"""Folders in which an ingest makes files, those that killed ones have left, and those that Spark sees elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow
import pytest
from pyarrow import parquet

from quotaform.history.table import ParquetHistory
from quotaform.model.errors import EngineError
from quotaform.system import files as module
from quotaform.system.files import remove_dead, staged_folder
from quotaform.usage.table.files import add_rows

WEEK = 7 * 24 * 3600
INGEST = """
import sys
from pathlib import Path
from quotaform.system.files import staged_folder
with staged_folder(Path(sys.argv[1])) as staged:
    staged.mkdir()
    print("ready", flush=True)
    sys.stdin.read()
"""


def staged_in(table: Path) -> list[Path]:
    return list(table.glob("_staged-*"))


def leave(table: Path, host: str | None, age_s: float = 0) -> Path:
    """Make what an ingest has left that ended so long ago."""
    staged = table / "_staged-1"
    (staged / "rows").mkdir(parents=True)
    paths = [staged / "rows" / "part-0.parquet", staged / "rows", staged]
    paths[0].touch()
    if host is not None:
        (staged / "host").write_text(host, encoding="utf-8")
        paths.insert(0, staged / "host")
    for path in paths:
        os.utime(path, (time() - age_s, time() - age_s))
    return staged


def test_nothing_is_left_by_an_ingest_that_ends(tmp_path: Path) -> None:
    with staged_folder(tmp_path) as staged:
        staged.mkdir()
        staged.rename(tmp_path / "_ready-1")
    assert [path.name for path in tmp_path.iterdir()] == ["_ready-1"]
    with pytest.raises(FileNotFoundError), staged_folder(tmp_path) as staged:
        (staged / "part").mkdir()
    assert staged_in(tmp_path) == []


def test_an_ingest_that_was_killed_is_cleaned_up_after_and_one_that_runs_is_not(tmp_path: Path) -> None:
    # A killed ingest left its files in the table for ever.
    arguments = [sys.executable, "-c", INGEST, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        for now in (time(), time() + 2 * WEEK):
            remove_dead(tmp_path, now)
            assert len(staged_in(tmp_path)) == 1
        running.kill()
    assert len(staged_in(tmp_path)) == 1
    remove_dead(tmp_path, time())
    assert staged_in(tmp_path) == []


@pytest.mark.parametrize("host", [None, "another-machine"])
def test_of_an_ingest_whose_lock_cannot_be_seen_only_its_age_says_that_it_has_ended(
    tmp_path: Path, host: str | None
) -> None:
    staged = leave(tmp_path, host, age_s=WEEK)
    remove_dead(tmp_path, time() - 60)
    assert staged.exists()
    # What is written now is in use, however old the rest is.
    os.utime(staged / "rows" / "part-0.parquet")
    remove_dead(tmp_path, time() + 60)
    assert staged.exists()
    remove_dead(tmp_path, time() + WEEK + 60)
    assert not staged.exists()


def test_without_locks_a_folder_is_not_taken_for_that_of_a_dead_ingest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "take_lock", lambda _: True)
    with staged_folder(tmp_path) as staged:
        staged.mkdir()
        remove_dead(tmp_path, time())
        assert staged.exists()


def rows_of(*files: int) -> Any:
    """A DataFrame whose executors leave so many rows in each file that this process sees."""

    def write(path: str) -> None:
        folder = Path(path.removeprefix("file://"))
        if files:
            folder.mkdir()
        for number, count in enumerate(files):
            parquet.write_table(pyarrow.table({"ts": range(count)}), folder / f"part-{number}.parquet")

    rows = SimpleNamespace(sparkSession=SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: False)))
    rows.write = SimpleNamespace(option=lambda *_: rows.write, partitionBy=lambda: rows.write, parquet=write)
    rows.hint = lambda _: rows
    return rows


@pytest.mark.parametrize("files", [(), (2,)])
def test_rows_that_are_on_another_machine_are_not_taken_for_added(tmp_path: Path, files: tuple[int, ...]) -> None:
    """Executors that wrote to disks of their own lost the rows in silence, and a server ended with a traceback."""
    found = sum(files)
    with pytest.raises(EngineError, match=rf"Spark wrote 5 rows to .*usage, and {found} of them are there"):
        add_rows(rows_of(*files), str(tmp_path / "usage"), 5, prefix="usage")
    assert not (tmp_path / "usage").exists()


def test_an_append_to_a_history_that_is_on_another_machine_fails(tmp_path: Path) -> None:
    """Of executors with disks of their own, the folder was there without the rows, and the append was done."""
    history = ParquetHistory(Mock(), str(tmp_path))
    with pytest.raises(EngineError, match=r"Spark wrote rows to .*, and 0 of them are there"):
        history.add(rows_of(0))
    assert list(tmp_path.iterdir()) == []
