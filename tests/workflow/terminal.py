"""The installed command on a terminal, for what it only does there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.workflow.command import QUOTAFORM, environment

_ENTER = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes the terminal the controlling one, which is where passwords are asked for, and becomes the command."""


def talk(
    *arguments: str | Path,
    cwd: Path,
    answers: Sequence[tuple[str, str]],
    env: Mapping[str, str] | None = None,
    timeout: float = 200,
    hides_answers: bool = True,
) -> tuple[int, str]:
    """Run `quotaform` on a terminal and answer it; return its exit code, and everything that was on the screen.

    `answers`: what is waited for on the screen, and what is typed then. `hides_answers`: whether the terminal does not
    show what is typed, as for passwords.
    """
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", _ENTER, QUOTAFORM, *map(str, arguments)]
        with subprocess.Popen(
            command, cwd=cwd, env=environment(env), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as process:
            try:
                screen = _converse(
                    ours, process, list(answers), time.monotonic() + timeout, hides_answers=hides_answers
                )
                return process.wait(timeout), screen
            finally:
                process.kill()
    finally:
        os.close(ours)
        os.close(theirs)


def _converse(
    ours: int,
    process: subprocess.Popen[bytes],
    answers: list[tuple[str, str]],
    deadline: float,
    *,
    hides_answers: bool,
) -> str:
    screen, seen = "", 0
    while time.monotonic() < deadline:
        readable, _, _ = select.select([ours], [], [], 0.1)
        if readable:
            screen += os.read(ours, 65536).decode()
        elif process.poll() is not None:
            return screen
        # A password is typed once the terminal no longer shows it; what came sooner would be thrown away.
        is_ready = not hides_answers or not termios.tcgetattr(ours)[3] & termios.ECHO
        if answers and answers[0][0] in screen[seen:] and is_ready:
            seen = screen.index(answers[0][0], seen) + len(answers[0][0])
            os.write(ours, answers.pop(0)[1].encode())
    raise AssertionError(f"the command still runs; on the screen is {screen!r}")
