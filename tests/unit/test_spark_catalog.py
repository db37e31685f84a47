"""Where Spark puts the directory of its catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.fleet.launch import temporary_warehouse


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
