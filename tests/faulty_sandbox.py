"""A sandbox whose brokers are killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from time import sleep

from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import ZOOKEEPER_SESSION_SECONDS
from tests.waiting import wait_until


class FaultySandbox(Sandbox):
    """A sandbox with faults; brokers are named by their number."""

    def kill(self, broker: int) -> None:
        """Kill a broker with SIGKILL and wait until it is gone; its data stays."""
        os.kill(self.pids[broker], signal.SIGKILL)
        self._wait_for_exit(self._started[broker].name)

    def pause(self, broker: int) -> None:
        """Freeze a broker: its connections stay open and nothing answers."""
        pid = self.pids[broker]
        os.kill(pid, signal.SIGSTOP)
        # On a busy machine its threads run on after `kill` has returned, and answer.
        if sys.platform == "linux":
            wait_until(lambda: _stands_still(pid))

    def resume(self, broker: int) -> None:
        os.kill(self.pids[broker], signal.SIGCONT)

    def restart(self, broker: int) -> None:
        """Start a broker again with its data and ports, stopping it first if it runs, and wait until it answers.

        After a `kill` Kafka lets it register again only when its old session is over; that takes up to
        `broker.session.timeout.ms`, 9 seconds by default.
        """
        node = self._started[broker]
        code = self._supervisor.exit_code(node.name)
        if code is None:
            os.kill(self.pids[broker], signal.SIGTERM)
            # A paused process sees the SIGTERM only when it goes on.
            os.kill(self.pids[broker], signal.SIGCONT)
            code = self._wait_for_exit(node.name)
        if self.release.has_zookeeper and code == -signal.SIGKILL:
            sleep(ZOOKEEPER_SESSION_SECONDS + 1)
        self._spawn(node)
        self._wait_until_ready([node], see=1)


def _stands_still(pid: int) -> bool:
    """Whether all threads of a process are stopped; not yet, if one of them ends at this moment."""
    try:
        states = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all(state.rpartition(") ")[2].startswith("T") for state in states)
