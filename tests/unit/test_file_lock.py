"""A file is updated by one process at a time, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from quotaform.app import file_lock
from quotaform.app.file_lock import update_lock


def test_a_second_update_waits_until_the_first_one_ends(tmp_path: Path) -> None:
    order: list[str] = []

    def update() -> None:
        with update_lock(tmp_path / "state.json"):
            order.append("second")

    with update_lock(tmp_path / "state.json"):
        second = Thread(target=update)
        second.start()
        second.join(0.2)
        order.append("first")
    second.join(60)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_never_released_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "_MOST_SECONDS", 0.05)
    with update_lock(tmp_path / "a"), update_lock(tmp_path / "b"):
        pass


def test_where_there_is_no_folder_there_is_no_lock(tmp_path: Path) -> None:
    with update_lock(tmp_path / "none" / "a"), update_lock(tmp_path / "none" / "a"):
        pass
