"""The owner's side of the supervisor: requests over two pipes, one JSON object per line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from quotaform.model.errors import SandboxError
from quotaform.sandbox import supervisor
from quotaform.sandbox.java import java_environment

_END_SECONDS = 40.0
"""Seconds to wait for the supervisor's end; it takes one or two, but a busy machine may be slower by far."""


class SupervisorClient:
    """Starts processes, signals them and ends them all, through a supervisor that outlives its owner."""

    def __init__(self, *, inherited: Sequence[int] = ()) -> None:
        """Start the supervisor.

        The data directory, `directory`, goes with the supervisor.
        """
        self._lock = threading.Lock()
        # Its own session keeps a Ctrl-C in the terminal away from it and from the brokers.
        self._process = subprocess.Popen(  # noqa: S603 (this package's own module)
            [sys.executable, "-I", str(Path(supervisor.__file__)), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=java_environment(),
            start_new_session=True,
            pass_fds=inherited,
        )
        self.pid = self._process.pid
        try:
            self.directory = Path(self._read()["directory"])
        except BaseException:
            self.stop()
            raise

    def spawn(self, name: str, argv: Sequence[str], log: Path) -> int:
        """Start a process, its output appended to `log`; return its process id."""
        return int(self._ask(do="spawn", name=name, argv=list(argv), log=str(log))["pid"])

    def exit_code(self, name: str) -> int | None:
        """Return how a process ended: None while it runs, negative for a signal."""
        code = self._ask(do="poll", name=name)["code"]
        return None if code is None else int(code)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self._ask(do="signal", name=name, signal=int(number))

    def detach(self) -> None:
        """Keep the supervisor running after this process; SIGTERM then ends it."""
        self._ask(do="detach")
        self._close()
        # Not waited for: it is meant to be running still.
        self._process.returncode = 0

    def stop(self) -> None:
        """End all processes, remove the data directory and wait for both; again is allowed."""
        if self._process.returncode is not None:
            return
        self._close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def _close(self) -> None:
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101 (made with a pipe)
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError) as error:
                raise SandboxError("The sandbox is no longer running; start it again.") from error
            return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 (made with a pipe)
        line = self._process.stdout.readline()
        if not line:
            raise SandboxError("The sandbox's supervisor process ended unexpectedly; start the sandbox again.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SandboxError(f"The sandbox could not start or signal a process: {answer['error']}.")
        return answer
