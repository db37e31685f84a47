"""The file that carries a job to the executors, as one of their workers opens it; without a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from quotaform.fleet.job import Bundle, DriverContext, ShippedFile, ShippedJob, _opened_job


@dataclass(frozen=True)
class Reading:
    """A job that has a file in the bundle."""

    bundle: Bundle
    name: str


def shipped(folder: Path, content: bytes) -> ShippedJob:
    bundle = Bundle(folder / f"{content.decode()}.zip", is_new=True)
    bundle.finish((Reading(bundle, bundle.add(content)), ()))
    return ShippedJob(ShippedFile(str(bundle.path), is_copied=False), (), DriverContext.current(None))


def test_a_worker_opens_a_job_once_and_closes_it_when_it_opens_the_next(tmp_path: Path) -> None:
    """The archives of all jobs stayed open as long as the worker ran."""
    one, other = shipped(tmp_path, b"one"), shipped(tmp_path, b"other")
    first, _ = _opened_job(one)
    assert _opened_job(one)[0] is first
    assert first.bundle.read(first.name) == b"one"
    second, _ = _opened_job(other)
    assert second.bundle.read(second.name) == b"other"
    with pytest.raises(ValueError, match="closed"):
        first.bundle.read(first.name)
