"""The Java process of Spark, as another program."""

from __future__ import annotations

from signal import Signals

import pytest

from quotaform.fleet.launch import JavaProcess


@pytest.mark.parametrize(("number", "name"), [(Signals.SIGKILL, "SIGKILL"), (Signals.SIGTERM, "SIGTERM")])
def test_a_process_that_was_ended_by_a_signal_says_by_which(number: Signals, name: str) -> None:
    # Its last line in the log was given as the reason for which Spark did not start.
    java = JavaProcess()
    java._start(["sleep", "60"]).send_signal(number)
    assert java.signal() == name


def test_a_process_that_ended_by_itself_or_was_ended_here_was_not_ended_by_a_signal() -> None:
    java = JavaProcess()
    assert java.signal() is None
    java._start(["false"])
    assert java.signal() is None
    process = java._start(["sleep", "60"])
    java.end()
    process.wait()
    assert java.signal() is None
