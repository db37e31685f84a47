"""The progress line on a terminal; `story-notify.txt` has what --quiet leaves out."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import NoReturn

import pytest

from quotaform.cli import console
from quotaform.cli.main import run
from quotaform.model.errors import ClusterError
from quotaform.repository import gateway as gateways


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a repository whose cluster cannot be reached."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: [{match: {user: a}, values: {producer_byte_rate: 1}}]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal that is stderr until the test ends."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.mark.parametrize(("error", "code"), [("down", 1), ("interrupted", 130)])
def test_an_error_does_not_stand_behind_the_progress_line(
    error: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Reading quotas of lab ...quotaform: interrupted` was on one line."""
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(console, "_PROGRESS_DELAY", 0.0)
    if error == "interrupted":
        shown = console.Console.progress

        def interrupt(self: console.Console, what: str, done: int, total: int) -> None:
            shown(self, what, done, total)
            raise KeyboardInterrupt

        monkeypatch.setattr(console.Console, "progress", interrupt)
    assert run(["plan"]) == code
    # On a busy machine the line is shown more than once.
    assert re.match(r"(\r\x1b\[KReading quotas of lab \.\.\.)+\r\x1b\[KError: ", terminal.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["describe", "resolve --name user=a", "alter user=a --add producer_byte_rate=1"])
def test_a_connection_that_takes_its_time_has_a_progress_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was shown until a connection was there or given up, which may take half a minute."""
    terminal = make_terminal(monkeypatch)
    line = "\r\x1b[KReading quotas of lab ..."
    shown_meanwhile = []

    def connect(_: object) -> NoReturn:
        deadline = monotonic() + 60
        while line not in terminal.getvalue() and monotonic() < deadline:
            sleep(0.01)
        shown_meanwhile.append(terminal.getvalue())
        raise ClusterError("down")

    monkeypatch.setattr(gateways, "open_gateway", connect)
    monkeypatch.setattr(console, "_PROGRESS_DELAY", 0.1)
    assert run(command.split()) == 1
    assert shown_meanwhile[0].startswith(line)
    assert terminal.getvalue().endswith("\r\x1b[KError: down\n")
