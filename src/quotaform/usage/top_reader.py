"""Reading who is throttled: all sources and the quotas at once, none of them waiting for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from quotaform.model.errors import ArgumentError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.quotas import Quotas
from quotaform.model.settings import MetricsSource
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.process import in_thread
from quotaform.usage.record.reader import Reader, problem_of, readers_of
from quotaform.usage.record.recording import Reading, explain_no_rows
from quotaform.usage.top import Top, Unread, make_top

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

_CLUSTER: Final = "the cluster"


class TopReader(Struct):
    """Reads who is throttled on a cluster, again and again."""

    cluster: str
    readers: Mapping[str, Reader]  # The readers of its metrics, by the names that messages show
    read_quotas: Callable[[], Quotas]
    clock: Clock
    patience: float = 5.0  # How many seconds answers are waited for
    quota_patience: float = 0.0  # How many seconds the quotas are waited for; `patience` if there are fewer
    _asked: dict[str, Future[Any]] = field(default_factory=dict)
    """What was asked of sources and of the cluster: none is asked again before it has answered."""
    _known: tuple[Quotas, str] | None = None  # The last quotas that could be read, and when

    def read(self) -> Top:
        """Read all of it once."""
        works: dict[str, Callable[[], Any]] = {_CLUSTER: self._read_quotas}
        works |= {name: partial(reader.read, self.patience) for name, reader in self.readers.items()}
        for name, work in works.items():
            if name not in self._asked or self._asked[name].done():
                self._asked[name] = in_thread(work)
        # A reader that waited as long says a little later why there is no answer.
        at, patience = self.clock.now(), self.patience + 0.5
        wait([self._asked[name] for name in self.readers], patience)
        waited = (self.clock.now() - at).total_seconds()
        wait([self._asked[_CLUSTER]], max(0.0, max(patience, self.quota_patience) - waited))
        unread: dict[str, str] = {}
        for name, asked in self._asked.items():
            if not asked.done():
                unread[name] = "has not answered yet; it is not asked again before it does"
            elif (error := asked.exception()) is not None:
                unread[name] = problem_of(error)
        found: dict[str, Reading] = {name: self._asked[name].result() for name in self.readers if name not in unread}
        of_quotas, known = unread.pop(_CLUSTER, None), self._known
        # A broker without a client has no rows.
        is_any = any(each.rows for each in found.values())
        for name, each in found.items():
            if (each.rejected or not is_any) and (remark := explain_no_rows(each)) is not None:
                unread[name] = f"answers, but {remark}"
        if of_quotas is not None:
            used = "no limit is known" if known is None else f"those of {known[1]} are used"
            unread[_CLUSTER] = f"{of_quotas}; {used}"
        rows = [row for each in found.values() for row in each.rows]
        problems = [Unread(what=name, problem=problem) for name, problem in unread.items()]
        return make_top(self.cluster, at, rows, None if known is None else known[0], problems)

    def _read_quotas(self) -> None:
        # Also when they are no longer waited for: then they are those of the next reading.
        self._known = self.read_quotas(), timestamp(self.clock)


def read_all(readers: Sequence[TopReader]) -> list[ClusterOutcome[Top]]:
    """Read who is throttled on several clusters, none of which waits for another."""
    asked = [in_thread(reader.read) for reader in readers]
    return [ClusterOutcome(reader.cluster, each.result()) for reader, each in zip(readers, asked, strict=True)]


@contextmanager
def top_readers(
    clusters: Sequence[Cluster],
    source: Sequence[MetricsSource] = (),
    *,
    prometheus: str | None = None,
    labels: Mapping[str, str] | None = None,
    once: bool = False,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[tuple[list[TopReader], list[ClusterOutcome[Top]]]]:
    """Yield what reads clusters, and the outcomes of those that cannot be read; see `quotaform.usage.record.reader`.

    `once` says that there is one reading: no later one can use an answer that comes late.
    """
    if len(clusters) > 1 and (source or prometheus):
        raise ArgumentError("{source} and {prometheus} are of one cluster; choose it with {cluster}")
    open_one = partial(readers_of, sources=source, prometheus=prometheus, labels=labels or {}, progress=progress)
    opened = [ClusterOutcome.of(each.label, partial(open_one, each)) for each in clusters]
    found: list[TopReader] = []
    with ExitStack() as stack:
        for cluster, outcome in zip(clusters, opened, strict=True):
            if outcome.error is None:
                quotas = stack.enter_context(_live_quotas(cluster))
                # As long as a client tries to read them, by default.
                patience = 60.0 if once else 0.0
                found.append(TopReader(cluster.label, outcome.require(), quotas, clock, quota_patience=patience))
        yield found, [ClusterOutcome(each.cluster, error=each.error) for each in opened if each.error is not None]


@contextmanager
def _live_quotas(cluster: Cluster) -> Iterator[Callable[[], Quotas]]:
    """Give what reads all quotas of a cluster, on one connection as long as that works."""
    admin: QuotaAdmin | None = None
    with ExitStack() as connection:

        def read() -> Quotas:
            nonlocal admin
            if admin is None:
                admin = connection.enter_context(closing(QuotaAdmin(open_pinned_gateway(cluster))))
            try:
                return admin.describe()
            except QuotaformError:
                admin = None
                connection.close()
                raise

        yield read
