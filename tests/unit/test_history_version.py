"""A version of a history that is there has its rows, whenever the process that made it was stopped."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from quotaform.history import version
from quotaform.history.version import CLOSED, OPEN, PARTS, SNAPSHOTS, Version, VersionStore
from quotaform.model.errors import HistoryError
from quotaform.system import files
from quotaform.system import process as interrupt

pytestmark = pytest.mark.slow

START = datetime(2026, 11, 1, tzinfo=UTC)
WHERE = {module.__file__ for module in (files, interrupt, version)}
STOPPED, DONE, OVER = 7, 8, 9


def add(store: VersionStore, text: str, now: datetime = START, before: Version | None = None) -> Version | None:
    """Add a version whose rows are a text in each part."""

    def write(folder: Path) -> None:
        for part in PARTS:
            (folder / f"part={part}").mkdir(parents=True)
            (folder / f"part={part}/rows").write_text(text, encoding="utf-8")

    return store.add(store.current() if before is None else before, write, (OPEN,), now)


def content(store: VersionStore) -> list[str]:
    """What the parts of the table hold."""
    parts = store.current().parts
    return [
        (store.folder(name, part) / "rows").read_text(encoding="utf-8")
        for part in (OPEN, CLOSED)
        for name in parts[part]
    ]


def make_store(path: Path) -> VersionStore:
    """A history with two versions; the next append removes the first."""
    made = VersionStore(path)
    made.begin()
    add(made, "older", START - timedelta(days=6))
    add(made, "old", START - timedelta(days=3))
    return made


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    """Such a history."""
    return make_store(tmp_path / "history")


def stopped_at(line: int, number: int, work: Callable[[], object]) -> int:
    """Do work in a process of its own, which gets a signal before its n-th line that is new; return how it ended."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    seen: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in WHERE:
            return None
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in seen:
            seen.add(place)
            if len(seen) == line:
                signal.raise_signal(number)
        return trace

    code = OVER
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.settrace(trace)
        work()
        sys.settrace(None)
        code = DONE if len(seen) >= line else OVER
    except KeyboardInterrupt:
        code = STOPPED
    finally:
        os._exit(code)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_wherever_an_append_is_stopped_the_table_is_readable_with_the_old_or_the_new_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Ctrl-C after the file of a version was there removed the rows that it names."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # It takes most of the time.
    seen: set[tuple[bool, bool]] = set()
    line, ended = 0, STOPPED
    while ended != OVER:
        line += 1
        store = make_store(tmp_path / str(line))
        ended = stopped_at(line, number, lambda: add(store, "new"))  # noqa: B023
        held = content(store)
        assert held in (["old", "older", "old"], ["new", "older", "old", "new"])
        seen.add((ended in (STOPPED, -number), held[0] == "new"))
        # What was left behind is in the way of nothing.
        assert add(store, "next", START + timedelta(days=3)) is not None
        assert content(store) == ["next", *held[1:], "next"]
    assert seen == {(True, False), (True, True), (False, True)}


def test_an_error_after_the_version_is_there_does_not_remove_its_rows(
    store: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.parent.name == "versions" and path.suffix == ".tmp":
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", failing)
    assert add(store, "new") is not None
    assert content(store) == ["new", "older", "old", "new"]


def test_an_append_that_cannot_be_made_the_table_leaves_it_as_it_was(
    store: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("sync_tree", "write_new_text"):
        with monkeypatch.context() as patched:
            patched.setattr(version, name, full)
            with pytest.raises(HistoryError, match="No space left on device"):
                add(store, "new")
        assert content(store) == ["old", "older", "old"]
        assert len(list((store.path / "data").iterdir())) == 2


def test_the_rows_are_on_the_disk_before_the_version_names_them(
    store: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut could leave a version without its rows: nothing had asked for them to be written."""
    synced: list[int] = []
    before_version: list[int] = []
    fsync, link = os.fsync, Path.hardlink_to

    def noting(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def linking(path: Path, target: Path) -> None:
        before_version.extend(synced)
        link(path, target)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(Path, "hardlink_to", linking)
    made = add(store, "new")
    assert made is not None
    (name,) = made.parts[OPEN]
    folder = store.folder(name)
    assert {each.stat().st_ino for each in (folder.parent, folder, *folder.rglob("*"))} <= set(before_version)


def test_an_append_that_began_days_ago_is_not_the_table_although_its_number_is_free_again(store: VersionStore) -> None:
    """It took a number that the others had used and cleaned up, said that it was done, and nobody saw its rows."""
    before = store.current()
    for day in range(5):
        add(store, f"day {day}", START + timedelta(days=2 * day))
    assert not (store.path / f"versions/{before.number + 1:08}.json").exists()
    held = content(store)
    assert add(store, "slow", START + timedelta(days=10), before) is None
    assert content(store) == held
    assert not any("slow" in each.read_text(encoding="utf-8") for each in store.path.rglob("rows"))


def test_of_two_appends_that_begin_with_one_version_one_is_told_that_the_other_was_faster(store: VersionStore) -> None:
    before = store.current()
    assert add(store, "first", before=before) is not None
    assert add(store, "second", before=before) is None
    assert content(store) == ["first", "older", "old", "first"]


def test_a_version_whose_file_is_empty_says_what_to_do(store: VersionStore) -> None:
    """A process that is killed where there are no hard links leaves one."""
    (store.path / "versions/00000003.json").touch()
    with pytest.raises(HistoryError, match=r"00000003\.json is empty; run this again; if it stays empty, .* remove"):
        store.current()


def test_what_was_replaced_is_removed_a_day_later(store: VersionStore) -> None:
    for day in range(3):
        made = add(store, f"day {day}", START + timedelta(days=2 * day))
    assert made is not None
    # The one before is kept for those who still read it.
    assert [path.name for path in sorted((store.path / "versions").iterdir())] == ["00000004.json", "00000005.json"]
    assert {path.name for path in (store.path / "data").iterdir()} == set(made.parts[SNAPSHOTS])
