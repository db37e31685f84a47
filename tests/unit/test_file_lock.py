"""A file is updated by one process at a time, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from quotaform.drift.alert import AlertOptions, DriftAlerts, MetricStore
from quotaform.system import files
from quotaform.system.files import update_lock
from tests.golden.drift_example import example_drift
from tests.scripted_gateway import Clock
from tests.unit.test_metrics import run_of


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
    monkeypatch.setattr(files, "_MOST_SECONDS", 0.05)
    with update_lock(tmp_path / "a") as first, update_lock(tmp_path / "b") as second:
        assert (first, second) == (True, False)


def test_a_state_and_metrics_that_are_written_without_the_lock_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_SECONDS", 0.05)
    state, metrics = tmp_path / "state.json", tmp_path / "q.prom"
    warnings: list[str] = []
    alerts = DriftAlerts(options=AlertOptions(state_path=state), clock=Clock(), warn=warnings.append)
    store = MetricStore(lambda _: metrics, warnings.append)
    with update_lock(tmp_path / "other"):
        for _ in range(2):
            alerts.record("lab", example_drift())
        store.add([run_of("lab")])
    assert [warning.partition(",")[0] for warning in warnings] == [
        f"{path} is written without a lock" for path in (state, metrics)
    ]
    assert state.exists()
    assert metrics.exists()
    alerts.record("lab", example_drift())
    assert len(warnings) == 2


def test_where_there_is_no_folder_there_is_no_lock(tmp_path: Path) -> None:
    with update_lock(tmp_path / "none" / "a") as first, update_lock(tmp_path / "none" / "a") as second:
        assert first
        assert second
