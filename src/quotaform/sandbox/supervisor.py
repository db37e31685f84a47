"""The supervisor process, which starts a sandbox's processes and guarantees that they end.

It is run by path, with the standard library only, and reads one JSON object per line from its standard input, which is
a pipe from the sandbox's owner. When that pipe closes for any reason, including SIGKILL of the owner, it ends the
processes that it has started, removes the data directory and exits.

| request                                | answer                                   |
| -------------------------------------- | ---------------------------------------- |
| (started)                              | `{"directory": ...}`, the data directory |
| `{"do": "spawn", name, argv, log}`     | `{"pid": ...}`                           |
| `{"do": "poll", name}`                 | `{"code": null or exit code}`            |
| `{"do": "detach"}`                     | `{}`: keeps running until SIGTERM        |

If this process itself is killed, the kernel ends the brokers (Linux), and the next supervisor removes the
directory: its lock is free.

Each answer is one line; `{"error": ...}` if a request could not be carried out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL. One broker needs 0.3; a quorum that ends all at once would wait much
longer for itself, for the sake of data that is removed anyway."""

_TICK = 0.5
_PREFIX = "quotaform-sandbox-"
_LOCK = "supervisor.lock"


class Supervisor:
    """The processes of one sandbox, by name."""

    def __init__(self, directory: Path, owner: int) -> None:
        self._directory = directory
        self._owner = owner
        self._detached = False
        self._told_to_leave = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._die_with_me = _parent_death_signal()

    def serve(self) -> None:
        """Carry out requests until told to stop, or until the owner is gone."""
        _answer({"directory": str(self._directory)})
        pending = b""
        while not self._told_to_leave:
            readable, _, _ = select.select([] if self._detached else [0], [], [], _TICK)
            if readable:
                piece = os.read(0, 65_536)
                if not piece:
                    return
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    self._carry_out(json.loads(line))
            elif self._is_orphaned():
                return

    def leave(self, *_: object) -> None:
        """Stop serving within half a second; a signal handler that interrupts nothing half done."""
        self._told_to_leave = True

    def end(self) -> None:
        """End every process and remove the data directory."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            # A paused process would not see the SIGTERM.
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + GRACE
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for _ in range(10):
            shutil.rmtree(self._directory, ignore_errors=True)
            if not self._directory.exists():
                return
            time.sleep(0.1)

    def _is_orphaned(self) -> bool:
        if self._detached:
            return all(process.poll() is not None for process in self._processes.values())
        # A child that the owner forked may hold the pipe open after the owner's end.
        return os.getppid() != self._owner

    def _carry_out(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {}
        try:
            match request["do"]:
                case "spawn":
                    answer["pid"] = self._spawn(request["name"], request["argv"], request["log"])
                case "poll":
                    answer["code"] = self._processes[request["name"]].poll()
                case "detach":
                    self._detached = True
        except (OSError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        _answer(answer)

    def _spawn(self, name: str, argv: list[str], log: str) -> int:
        with Path(log).open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 (the owner says what to run)
                argv,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self._die_with_me,
            )
        self._processes[name] = process
        return process.pid


def _answer(answer: dict[str, Any]) -> None:
    # An owner that no longer listens is gone: the closed pipe says so at the next read.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def _parent_death_signal() -> Callable[[], None] | None:
    """Make what ends a child with this process even if this one is killed; Linux can (prctl(2)), others cannot."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    pr_set_pdeathsig = 1
    return lambda: prctl(pr_set_pdeathsig, signal.SIGKILL)


def _own_parent() -> Path | None:
    """Make the directory of all sandboxes of this user, in the temporary one; `None` if its name is of another user."""
    path = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return path if is_own else None


def _make_directory(parent: Path | None) -> Path:
    """Make the data directory, with a lock file that is locked as long as this process lives."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    # Locked before it gets its name, so that it is never found free; the descriptor is never closed.
    nameless = directory / f"{_LOCK}.new"
    fcntl.flock(os.open(nameless, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), fcntl.LOCK_EX)
    nameless.rename(directory / _LOCK)
    return directory


def _remove_stale_directories(parent: Path) -> None:
    """Remove the directories of killed supervisors of this user; never wait on anything but a lock file."""
    for directory in parent.iterdir():
        # It is locked or already removed.
        with contextlib.suppress(OSError):
            lock = os.open(directory / _LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                if stat.S_ISREG(os.fstat(lock).st_mode):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


def main() -> None:
    """Serve the owner whose process id is the only argument."""
    # The owner handles Ctrl-C and then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parent = _own_parent()
        directory = _make_directory(parent)
    except OSError as error:
        _answer({"error": f"no directory can be made in {tempfile.gettempdir()}: {error.strerror}"})
        return
    supervisor = Supervisor(directory, owner=int(sys.argv[1]))
    signal.signal(signal.SIGTERM, supervisor.leave)
    signal.signal(signal.SIGHUP, supervisor.leave)
    try:
        # Errors are written next to the brokers' logs, because nothing may read this process's standard error any more.
        with (directory / "supervisor.log").open("wb") as log:
            os.dup2(log.fileno(), 2)
        if parent is not None:
            _remove_stale_directories(parent)
        supervisor.serve()
    finally:
        supervisor.end()


if __name__ == "__main__":
    main()
