"""An apply that stands still between two of its requests, so that a test has all the time that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.proxy import Action, FrameFault, Moment, Proxy, Side
from tests.faults.raw import ALTER
from tests.waiting import PATIENCE, wait_until
from tests.workflow.command import Cluster, Repository, Running

VALUES_AT_ONCE = 4_000
"""How many values an apply sends in one request, in its dry run as in earnest."""


@contextmanager
def held_apply(repository: Repository, proxy: Proxy, *arguments: str, values: int, sent: int = 1) -> Iterator[Running]:
    """Start an apply through a proxy; go on when all that it sent in earnest are so many requests.

    Args:
        repository: Its quotaform.yaml names the proxy.
        proxy: Its `released` lets the apply go on.
        arguments: Of the command.
        values: How many values the apply changes.
        sent: How many requests are answered before it is held.
    """
    dry_run = -(-values // VALUES_AT_ONCE)
    with proxy.disturbed(FrameFault(moment=Moment(Side.REQUEST, ALTER, dry_run + sent), action=Action.HOLD)):
        running = repository.start("apply", *arguments)
        assert proxy.reached.wait(PATIENCE), running.end()
        yield running


def wait_for_the_first(cluster: Cluster, running: Running) -> None:
    """Wait until the first request of an apply to an empty cluster shows."""

    def shows() -> bool:
        live = cluster.read()
        assert live or not running.is_over, running.end()
        return bool(live)

    wait_until(shows)
