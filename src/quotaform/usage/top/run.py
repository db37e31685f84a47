"""Reading who is throttled: all sources and the quotas at once, none of them waiting for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Quotas
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.system.clock import Clock, timestamp
from quotaform.usage.record.reader import Reader, problem_of
from quotaform.usage.record.recording import ReadRows, explain_no_rows, read_rows
from quotaform.usage.top.top import Top, Unread, make_top

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

T = TypeVar("T")

_PATIENCE: Final = 5.0
"""Seconds after which an answer is not waited for."""
_MARGIN: Final = 0.5
"""Seconds more, in which a reader that waited as long says why there is none."""
_STILL: Final = "has not answered yet; it is not asked again before it does"


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Do something in a thread that ends with the process, however long it would take."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done


@dataclass(slots=True)
class TopReader:
    """Reads who is throttled on a cluster, again and again."""

    cluster: str
    readers: Mapping[str, Reader]  # What reads its measurements, by what messages call it
    read_quotas: Callable[[], Quotas]
    clock: Clock
    patience: float = _PATIENCE  # How many seconds answers are waited for
    quota_patience: float = 0.0  # How many seconds the quotas are waited for; `patience` if there are fewer
    _sources: dict[str, Future[ReadRows]] = field(default_factory=dict)
    """What was asked of sources and not answered yet: none is asked again before."""
    _quotas: Future[tuple[Quotas, str]] | None = None
    _known: tuple[Quotas, str] | None = None  # The last quotas that could be read, and when

    def read(self) -> Top:
        """Read all of it once."""
        if self._quotas is not None and self._quotas.done():
            # They came when they were no longer waited for.
            self._take_quotas(self._quotas)
        if self._quotas is None:
            self._quotas = in_thread(lambda: (self.read_quotas(), timestamp(self.clock)))
        for name, reader in self.readers.items():
            if name not in self._sources or self._sources[name].done():
                self._sources[name] = in_thread(partial(self._read, reader))
        at = self.clock.now()
        wait(self._sources.values(), self.patience + _MARGIN)
        unread: list[Unread] = []
        found: dict[str, ReadRows] = {}
        for name, asked in self._sources.items():
            try:
                found[name] = asked.result(timeout=0.0)
            except TimeoutError:
                unread.append(Unread(what=name, problem=_STILL))
            except Exception as error:
                unread.append(Unread(what=name, problem=problem_of(error)))
        # A broker without a client has no rows.
        is_any = any(each.rows for each in found.values())
        unread += [
            Unread(what=name, problem=f"answers, but {remark}")
            for name, each in found.items()
            if (each.rejected or not is_any) and (remark := explain_no_rows(each)) is not None
        ]
        waited = (self.clock.now() - at).total_seconds()
        wait([self._quotas], max(0.0, max(self.patience + _MARGIN, self.quota_patience) - waited))
        problem = self._take_quotas(self._quotas)
        if problem is not None:
            used = "no limit is known" if self._known is None else f"those of {self._known[1]} are used"
            unread.append(Unread(what="the cluster", problem=f"{problem}; {used}"))
        rows = [row for each in found.values() for row in each.rows]
        return make_top(self.cluster, at, rows, None if self._known is None else self._known[0], unread)

    def _read(self, reader: Reader) -> ReadRows:
        return read_rows(reader.read(self.patience).items)

    def _take_quotas(self, asked: Future[tuple[Quotas, str]]) -> str | None:
        """Keep the quotas that were read; return why there are none, if there are none."""
        if not asked.done():
            return _STILL
        self._quotas = None
        try:
            self._known = asked.result()
        except QuotaformError as error:
            return f"cannot be read: {str(error).rstrip('.')}"
        except Exception as error:
            return problem_of(error)
        return None


def read_all(readers: Sequence[TopReader]) -> list[ClusterOutcome[Top]]:
    """Read who is throttled on several clusters, none of which waits for another."""
    asked = [in_thread(reader.read) for reader in readers]
    return [ClusterOutcome(reader.cluster, each.result()) for reader, each in zip(readers, asked, strict=True)]


class LiveQuotas:
    """Reads all quotas of a cluster, on one connection as long as that works."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin: QuotaAdmin | None = None

    def read(self) -> Quotas:
        """Return what the cluster has now."""
        if self._admin is None:
            self._admin = QuotaAdmin(open_pinned_gateway(self._cluster))
        try:
            return self._admin.describe()
        except QuotaformError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
