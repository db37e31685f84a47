"""Work on many clusters at a time: one outcome each, in order, with progress, and safe to interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from quotaform.cluster.gateway import Gateway
from quotaform.desired.config import Cluster
from quotaform.model.entity import spell_name
from quotaform.model.errors import NotReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.text import listed

if TYPE_CHECKING:
    from quotaform.cluster.scram import ScramGateway

REPORT_INTERVAL: Final = 0.25
"""Seconds after which progress is reported again while a cluster is waited for."""


class ClusterProgress:
    """Progress of the work on one cluster, to be reported again."""

    def __init__(self, progress: Progress = no_progress) -> None:
        self._progress = progress
        self._last = ("", 0, 0)

    def __call__(self, what: str, done: int, total: int) -> None:
        self._last = (what, done, total)
        self._progress(what, done, total)

    def repeat(self) -> None:
        """Report the last step again."""
        self._progress(*self._last)


@contextmanager
def repeated(progress: Progress, what: str, total: int = 0) -> Iterator[ClusterProgress]:
    """Report the last step again and again, from a thread, while the block waits; it must not print anything else."""
    steps = ClusterProgress(progress)
    steps(what, 0, total)
    is_over = Event()

    def repeat() -> None:
        with suppress(Exception):  # What cannot be shown is no reason to end the work.
            while not is_over.wait(REPORT_INTERVAL):
                steps.repeat()

    thread = Thread(target=repeat, name="quotaform-progress", daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        is_over.set()
        thread.join()


C = TypeVar("C", bound="Gateway | ScramGateway")
T = TypeVar("T")

AT_ONCE: Final = 16
"""How many clusters are worked on at a time."""

Connect = Callable[["Cluster"], Gateway]
"""Opens the gateway of a cluster."""


def work_on(
    clusters: Sequence[Cluster],
    work: Callable[[Cluster, C, Progress], T],
    connect: Callable[[Cluster], C],
    progress: Progress = no_progress,
    known: Mapping[str, QuotaformError] = MappingProxyType({}),
) -> Iterator[ClusterOutcome[T]]:
    """Work on clusters in threads, each with a connection, and yield one outcome per cluster, in order.

    `known`: clusters that have failed already, with the reasons; they are not connected to. An error that is not a
    `QuotaformError` is raised, and an interrupt after the outcomes of all clusters that are finished. The end of the
    iterator closes the connections that are still open, which ends whatever waits for a broker, and the threads are
    daemons: so an interrupt is never kept waiting.
    """
    steps, total = ClusterProgress(progress), len(clusters)
    results: dict[str, Future[T]] = {cluster.name: Future() for cluster in clusters}
    for name, error in known.items():
        results[name].set_exception(error)
    todo = [cluster for cluster in clusters if cluster.name not in known]
    next_one = iter(todo)
    connections: list[C] = []
    lock, is_over = Lock(), Event()

    def work_on_some() -> None:
        while True:
            with lock:
                cluster = None if is_over.is_set() else next(next_one, None)
            if cluster is None:
                return
            result = results[cluster.name]
            try:
                connection = connect(cluster)
                with lock:
                    connections.append(connection)
                try:
                    if is_over.is_set():
                        raise NotReadError("not read: the run is over")
                    result.set_result(work(cluster, connection, steps if total == 1 else no_progress))
                finally:
                    with lock:
                        connections.remove(connection)
                    connection.close()
            except BaseException as error:
                if not result.done():
                    result.set_exception(error)

    def outcome(cluster: Cluster) -> ClusterOutcome[T]:
        return ClusterOutcome.of(cluster.name, results[cluster.name].result)

    try:
        for number in range(min(AT_ONCE, len(todo))):
            Thread(target=work_on_some, name=f"quotaform-cluster-{number}", daemon=True).start()
        steps(f"Reading quotas of {_names(clusters)}", 0, total if total > 1 else 0)
        for place, cluster in enumerate(clusters):
            try:
                while not wait([results[cluster.name]], REPORT_INTERVAL).done:
                    waiting = [each for each in clusters if not results[each.name].done()]
                    if total == 1:
                        steps.repeat()
                    elif waiting:
                        steps(f"Waiting for {_names(waiting)}", total - len(waiting), total)
            except KeyboardInterrupt:
                yield from (outcome(each) for each in clusters[place:] if results[each.name].done())
                raise
            yield outcome(cluster)
    finally:
        with lock:
            is_over.set()
            left = tuple(connections)
        for connection in left:
            with suppress(Exception):
                connection.close()


def _names(clusters: Sequence[Cluster]) -> str:
    return listed((spell_name(cluster.label) for cluster in clusters), 3)
