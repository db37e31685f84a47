"""`quotaform.cli.main.run` can be called any number of times in one process, which it leaves as it was."""

from __future__ import annotations

import gc
import signal
import sys
from importlib.resources import files
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Thread

import pytest

from quotaform.cli.main import run


def settings() -> tuple[object, ...]:
    """What a run changes for as long as it lasts."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    streams = [getattr(stream, "errors", None) for stream in (sys.stdout, sys.stderr)]
    return (*handlers, *streams, sys.stdout, sys.stderr, gc.get_threshold(), gc.isenabled(), gc.get_freeze_count())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["schema"], 0),
        (["nonsense"], 64),
        (["plan", "--cluster="], 64),
        (["validate", "nowhere"], 3),
        (["resolve", "--name", "user=a"], 64),
    ],
)
def test_a_run_leaves_the_process_as_it_was(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers of signals, thresholds of the garbage collector and error handling of streams stayed changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout", TextIOWrapper(BytesIO(), "ascii", errors="strict"))
    before = settings()
    assert run(arguments) == code
    assert settings() == before


def test_a_second_run_prints_what_the_first_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert run(["schema"]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert printed[0].out


def test_only_the_command_changes_the_garbage_collector() -> None:
    """Reading files and resolving switched it off and on, for every thread of the program that called them."""
    package = Path(str(files("quotaform")))
    users = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "import gc" in path.read_text()}
    assert users == {"cli/process.py"}


def test_a_run_may_be_in_any_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the main thread can handle signals: elsewhere a run ended with an internal error."""
    codes: list[int] = []
    thread = Thread(target=lambda: codes.append(run(["schema"])))
    thread.start()
    thread.join()
    assert (codes, capsys.readouterr().err) == ([0], "")


class Unread(BytesIO):
    """A pipe whose reader went away."""

    def write(self, _content: object) -> int:
        raise BrokenPipeError


def test_a_reader_that_went_away_does_not_silence_later_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The descriptor of stdout was pointed at /dev/null, for the process and whatever ran in it afterwards."""
    with monkeypatch.context() as patch:
        stream = TextIOWrapper(Unread(), write_through=True)
        patch.setattr("sys.stdout", stream)
        assert run(["schema", "quotas"]) == 0
    assert run(["schema"]) == 0
    assert "quotas\n" in capsys.readouterr().out
