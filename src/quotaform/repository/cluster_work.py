"""Work on many clusters at a time: one outcome each, in order, with progress, and safe to interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from quotaform.cluster.gateway import Gateway
from quotaform.model.entity import spell_name
from quotaform.model.errors import NotReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.text import listed

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


REPORT_INTERVAL: Final = 0.25
"""Seconds after which progress is reported again while a cluster is waited for."""


class ClusterProgress:
    """Progress of the work on one cluster, to be reported again."""

    def __init__(self, progress: Progress = no_progress) -> None:
        self._progress = progress
        self._last = ("", 0, 0)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report a step."""
        self._last = (what, done, total)
        self._progress(what, done, total)

    def repeat(self) -> None:
        """Report the last step again."""
        self._progress(*self._last)


@contextmanager
def repeated(progress: Progress, what: str, total: int = 0) -> Iterator[ClusterProgress]:
    """Report the last step again and again while the block waits for a cluster; nothing else may be printed in it.

    `progress` is called with what is being done, from a thread of its own.
    """
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


class Closable(Protocol):
    """A connection to a cluster, of whatever kind."""

    def close(self) -> None:
        """Close it; what waits for an answer ends."""


C = TypeVar("C", bound=Closable)
T = TypeVar("T")

AT_ONCE: Final = 16
"""How many clusters are worked on at a time."""

_MOST_NAMES: Final = 3
"""How many clusters a line of progress names."""

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

    `work` is called once per cluster, with what shows how far it is if there is only one. `known`: clusters that have
    failed already, with the reasons; they are not connected to.

    An interrupt while an outcome is waited for is raised again after those of all clusters that are finished. The end
    of the iterator closes the connections that are still open, which ends whatever waits for a broker, and the threads
    are daemons: so an interrupt is never kept waiting.
    """
    steps = ClusterProgress(progress)
    run = _ClusterRun(clusters, work, connect, known, steps if len(clusters) == 1 else no_progress)
    try:
        run.start()
        yield from run.outcomes(steps)
    finally:
        run.close()


class _ClusterRun(Generic[C, T]):
    def __init__(
        self,
        clusters: Sequence[Cluster],
        work: Callable[[Cluster, C, Progress], T],
        connect: Callable[[Cluster], C],
        known: Mapping[str, QuotaformError],
        progress: Progress,
    ) -> None:
        self._clusters = clusters
        self._work = work
        self._connect = connect
        self._progress = progress
        self._results: dict[str, Future[T]] = {cluster.name: Future() for cluster in clusters}
        for name, error in known.items():
            self._results[name].set_exception(error)
        self._todo = [cluster for cluster in reversed(clusters) if cluster.name not in known]
        self._open: list[C] = []
        self._lock = Lock()
        self._is_over = False

    def start(self) -> None:
        for number in range(min(AT_ONCE, len(self._todo))):
            Thread(target=self._work_on_some, name=f"quotaform-cluster-{number}", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            left = tuple(self._open)
        for connection in left:
            with suppress(Exception):
                connection.close()

    def outcomes(self, steps: ClusterProgress) -> Iterator[ClusterOutcome[T]]:
        steps(f"Reading quotas of {_names(self._clusters)}", 0, len(self._clusters) if len(self._clusters) > 1 else 0)
        for place, cluster in enumerate(self._clusters):
            try:
                self._await(cluster, steps)
            except KeyboardInterrupt:
                yield from (self._outcome(each) for each in self._clusters[place:] if self._results[each.name].done())
                raise
            yield self._outcome(cluster)

    def _await(self, cluster: Cluster, steps: ClusterProgress) -> None:
        """Wait until the work on a cluster is done, and report meanwhile which clusters are waited for."""
        total = len(self._clusters)
        while not wait([self._results[cluster.name]], REPORT_INTERVAL).done:
            waiting = [each for each in self._clusters if not self._results[each.name].done()]
            if total == 1:
                steps.repeat()
            elif waiting:
                steps(f"Waiting for {_names(waiting)}", total - len(waiting), total)

    def _outcome(self, cluster: Cluster) -> ClusterOutcome[T]:
        """Return the outcome of a cluster; an error that is not a `QuotaformError` is raised."""
        return ClusterOutcome.of(cluster.name, self._results[cluster.name].result)

    def _work_on_some(self) -> None:
        while (cluster := self._next()) is not None:
            result = self._results[cluster.name]
            try:
                with self._connected(cluster) as connection:
                    result.set_result(self._work(cluster, connection, self._progress))
            except BaseException as error:
                result.set_exception(error)

    def _next(self) -> Cluster | None:
        with self._lock:
            return self._todo.pop() if self._todo and not self._is_over else None

    @contextmanager
    def _connected(self, cluster: Cluster) -> Iterator[C]:
        """Connect to a cluster, and note the connection as long as it is open."""
        connection = self._connect(cluster)
        with self._lock:
            self._open.append(connection)
            is_over = self._is_over
        try:
            if is_over:
                raise NotReadError("not read: the run is over")
            yield connection
        finally:
            with self._lock:
                self._open.remove(connection)
            connection.close()


def _names(clusters: Sequence[Cluster]) -> str:
    return listed((spell_name(cluster.label) for cluster in clusters), _MOST_NAMES)
