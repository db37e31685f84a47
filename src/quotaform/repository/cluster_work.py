"""Work on many clusters at a time: one outcome each, in order, with progress, and safe to interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from quotaform.cluster.gateway import Gateway
from quotaform.model.entity import spell_name
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.text import listed

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


REPORT_INTERVAL: Final = 0.25
"""Seconds after which progress is reported again while a cluster is waited for."""


class Steps:
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
def repeated(progress: Progress, what: str, total: int = 0) -> Iterator[Steps]:
    """Report the last step again and again while the block waits for a cluster; nothing else may be printed in it.

    `progress` is called with what is being done, from a thread of its own.
    """
    steps = Steps(progress)
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


class ClusterWork(Generic[C, T]):
    """Works on clusters in threads of its own, each with a connection, and is done when its block ends.

    The threads are daemons, and leaving the block closes the connections that are still open, which ends whatever waits
    for a broker. So an interrupt in the block is never kept waiting.
    """

    def __init__(
        self, clusters: Iterable[Cluster], work: Callable[[Cluster, C], T], connect: Callable[[Cluster], C]
    ) -> None:
        """Begin. `work` is called once per cluster."""
        self._clusters: Final[Sequence[Cluster]] = tuple(clusters)
        self._work = work
        self._connect = connect
        self._results: dict[str, Future[T]] = {cluster.name: Future() for cluster in self._clusters}
        self._todo = iter(self._clusters)
        self._open: list[C] = []
        self._lock = Lock()
        self._is_over = False

    def __enter__(self) -> Self:
        """Start the threads."""
        for number in range(min(AT_ONCE, len(self._clusters))):
            Thread(target=self._run, name=f"quotaform-cluster-{number}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open."""
        with self._lock:
            self._is_over = True
            left = tuple(self._open)
        for gateway in left:
            with suppress(Exception):
                gateway.close()

    def outcome(self, cluster: Cluster) -> ClusterOutcome[T]:
        """Wait until the work on a cluster is done.

        Raises `Exception`: anything but a `QuotaformError` that the work raised, which is an error in quotaform.
        """
        try:
            return ClusterOutcome(cluster.name, self._results[cluster.name].result())
        except QuotaformError as error:
            return ClusterOutcome(cluster.name, error=error)

    def outcomes(self, known: Mapping[str, QuotaformError], steps: Steps) -> Iterator[ClusterOutcome[T]]:
        """Yield one outcome per cluster, in order.

        `known`: the clusters that have failed whatever becomes of the work, with the reasons. `steps`: called with the
        clusters that are waited for.

        Raises `KeyboardInterrupt`: an outcome was waited for. Those of all clusters that are finished are yielded
        before; `Exception`: as `outcome` raises.
        """
        steps(f"Reading quotas of {_names(self._clusters)}", 0, len(self._clusters) if len(self._clusters) > 1 else 0)
        for place, cluster in enumerate(self._clusters):
            try:
                if cluster.name not in known:
                    self._await(cluster, steps)
            except KeyboardInterrupt:
                for later in self._clusters[place:]:
                    if later.name in known or self._results[later.name].done():
                        yield self._outcome(later, known)
                raise
            yield self._outcome(cluster, known)

    def _outcome(self, cluster: Cluster, known: Mapping[str, QuotaformError]) -> ClusterOutcome[T]:
        if cluster.name in known:
            return ClusterOutcome(cluster.name, error=known[cluster.name])
        return self.outcome(cluster)

    def _await(self, cluster: Cluster, steps: Steps) -> None:
        """Wait until the work on a cluster is done, and report meanwhile which clusters are waited for."""
        total = len(self._clusters)
        while not wait([self._results[cluster.name]], REPORT_INTERVAL).done:
            waiting = [each for each in self._clusters if not self._results[each.name].done()]
            if total == 1:
                steps.repeat()
            elif waiting:
                steps(f"Waiting for {_names(waiting)}", total - len(waiting), total)

    def _run(self) -> None:
        while (cluster := self._next()) is not None:
            result = self._results[cluster.name]
            try:
                connection = self._connect(cluster)
                if not self._keep(connection):
                    return
                try:
                    result.set_result(self._work(cluster, connection))
                finally:
                    self._let_go(connection)
            except BaseException as error:
                result.set_exception(error)

    def _next(self) -> Cluster | None:
        with self._lock:
            return None if self._is_over else next(self._todo, None)

    def _keep(self, connection: C) -> bool:
        """Note an open connection; return whether anybody still wants it."""
        with self._lock:
            if not self._is_over:
                self._open.append(connection)
                return True
        connection.close()
        return False

    def _let_go(self, connection: C) -> None:
        with self._lock:
            self._open.remove(connection)
        connection.close()


def _names(clusters: Sequence[Cluster]) -> str:
    return listed((spell_name(cluster.label) for cluster in clusters), _MOST_NAMES)
