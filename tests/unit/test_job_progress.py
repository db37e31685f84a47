"""What a log of CI shows of the work of Spark, and the file that carries a job to its executors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from quotaform.cli.console import Console
from quotaform.cli.option import engine
from quotaform.cli.option.engine import JobProgress
from quotaform.fleet import session
from quotaform.fleet.job import Bundle, DriverContext, ShippedFile, ShippedJob, _opened_job
from quotaform.fleet.options import SessionOptions

WHAT = "Planning clusters on Spark"


class Log(StringIO):
    """A stderr, and the time."""

    now = 0.0
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


def new_log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(engine, "monotonic", lambda: made.now)
    monkeypatch.setattr(session, "_active_session", lambda: None)
    return made


def progress(*, is_quiet: bool = False) -> JobProgress:
    options = SessionOptions(master="spark://host:7077")
    return JobProgress(Console(is_quiet=is_quiet), "Planning 400 clusters", options)


def test_a_log_has_a_line_every_half_minute_if_more_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(monkeypatch)
    report = progress()
    report("Starting Spark", 0, 0)
    for second, done in {0: 0, 29: 6, 40: 0, 41: 7, 42: 8, 70: 9, 71: 10, 101: 10, 300: 10, 301: 11}.items():
        log.now = float(second)
        report(WHAT, done, 400)
    assert log.getvalue().splitlines() == [
        "Planning 400 clusters on Spark (spark://host:7077) ...",
        f"{WHAT} 7 of 400 (1%) ...",
        f"{WHAT} 10 of 400 (2%) ...",
        f"{WHAT} 11 of 400 (2%) ...",
    ]


def test_the_session_that_exists_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(monkeypatch)
    monkeypatch.setattr(session, "_active_session", object)
    progress()(WHAT, 0, 400)
    assert log.getvalue() == "Planning 400 clusters on Spark ...\n"


@pytest.mark.parametrize("why", ["terminal", "quiet"])
def test_a_terminal_and_a_quiet_log_have_no_lines(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    log = new_log(monkeypatch)
    log.is_terminal = why == "terminal"
    report = progress(is_quiet=why == "quiet")
    report(WHAT, 0, 400)
    log.now = 60.0
    report(WHAT, 200, 400)
    assert "\n" not in log.getvalue()


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
