"""The progress line on a terminal."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest

from quotaform.cli import console
from quotaform.cli.main import run


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("error", "code"), [("down", 1), ("interrupted", 130)])
def test_an_error_does_not_stand_behind_the_progress_line(
    error: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Reading quotas of lab ...quotaform: interrupted` was on one line."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: [{match: {user: a}, values: {producer_byte_rate: 1}}]\n")
    monkeypatch.chdir(tmp_path)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console, "_PROGRESS_DELAY", 0.0)
    if error == "interrupted":
        shown = console.Console.progress

        def interrupt(self: console.Console, what: str, done: int, total: int) -> None:
            shown(self, what, done, total)
            raise KeyboardInterrupt

        monkeypatch.setattr(console.Console, "progress", interrupt)
    assert run(["plan"]) == code
    assert terminal.getvalue().startswith("\r\x1b[KReading quotas of lab ...\r\x1b[Kquotaform: ")
