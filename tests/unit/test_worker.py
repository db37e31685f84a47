"""Which tests stay together when they run in parallel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker import ONE_WORKER

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("beginning", ONE_WORKER)
def test_what_stays_on_one_worker_is_there(beginning: str) -> None:
    file, _, test = beginning.partition("::")
    assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8")
