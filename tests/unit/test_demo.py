"""`quotaform demo`: how a session of commands ends early."""

from __future__ import annotations

from typing import Any

import pytest

from quotaform.cli import main
from quotaform.cli.command import demo
from quotaform.cli.console import Color, Console
from quotaform.model.errors import ExitCode
from quotaform.system.process import interrupt_code


@pytest.mark.parametrize("code", [ExitCode.INTERRUPTED, ExitCode.TERMINATED])
def test_a_demo_that_is_interrupted_while_a_command_runs_ends_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, code: ExitCode
) -> None:
    # Since commands run in its process, it ended with 1, as if the command had failed.
    monkeypatch.setattr(main, "run", lambda _: code)
    kafka: Any = None
    with pytest.raises(KeyboardInterrupt) as raised, demo._Session(Console(Color.NEVER), kafka, 1) as session:
        session.play("$ quotaform plan", "")
    assert interrupt_code(raised.value) == code
