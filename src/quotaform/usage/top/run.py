"""Reading who is throttled: all sources and the quotas at once, none of them waiting for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from quotaform.model.errors import QuotaformError
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


class _Question(Generic[T]):
    """Something that is asked in a thread, and not again before it is answered."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._asked: Future[T] | None = None

    def begin(self) -> None:
        if self._asked is None or self._asked.done():
            self._asked = in_thread(self._ask)

    def late_answer(self) -> T | None:
        """Return an answer that came when it was no longer waited for; `None` without one."""
        if self._asked is None or not self._asked.done() or self._asked.exception() is not None:
            return None
        return self._asked.result()

    def answer(self, seconds: float) -> T:
        """Return the answer, once.

        Raises `TimeoutError` if there is none in time, and `QuotaformError` if it failed.
        """
        assert self._asked is not None  # noqa: S101 (it was asked)
        wait([self._asked], max(0.0, seconds))
        if not self._asked.done():
            raise TimeoutError
        done, self._asked = self._asked, None
        return done.result()


@dataclass(slots=True)
class TopReader:
    """Reads who is throttled on a cluster, again and again."""

    cluster: str
    readers: Mapping[str, Reader]  # What reads its measurements, by what messages call it
    read_quotas: Callable[[], Quotas]
    clock: Clock
    patience: float = _PATIENCE  # How many seconds answers are waited for
    quota_patience: float = 0.0  # How many seconds the quotas are waited for; `patience` if there are fewer
    _sources: dict[str, _Question[ReadRows]] = field(init=False)
    _quotas: _Question[tuple[Quotas, str]] = field(init=False)
    _known: Quotas | None = None
    _known_at: str = ""

    def __post_init__(self) -> None:
        """Prepare the questions."""
        self._quotas = _Question(lambda: (self.read_quotas(), timestamp(self.clock)))
        self._sources = {name: _Question(partial(self._read, reader)) for name, reader in self.readers.items()}

    def read(self) -> Top:
        """Read all of it once."""
        if (late := self._quotas.late_answer()) is not None:
            self._known, self._known_at = late
        self._quotas.begin()
        for source in self._sources.values():
            source.begin()
        at, begun = self.clock.now(), self.clock.monotonic()
        deadline = begun + self.patience + _MARGIN
        unread: list[Unread] = []
        found: dict[str, ReadRows] = {}
        for name, question in self._sources.items():
            try:
                found[name] = question.answer(deadline - self.clock.monotonic())
            except TimeoutError:
                unread.append(Unread(what=name, problem=_STILL))
            except Exception as error:
                unread.append(Unread(what=name, problem=problem_of(error)))
        unread += _without_rows(found)
        unread += self._take_quotas(max(deadline, begun + self.quota_patience))
        rows = [row for each in found.values() for row in each.rows]
        return make_top(self.cluster, at, rows, self._known, unread)

    def _read(self, reader: Reader) -> ReadRows:
        return read_rows(reader.read(self.patience).items)

    def _take_quotas(self, deadline: float) -> list[Unread]:
        try:
            self._known, self._known_at = self._quotas.answer(deadline - self.clock.monotonic())
        except TimeoutError:
            problem = _STILL
        except QuotaformError as error:
            problem = f"cannot be read: {str(error).rstrip('.')}"
        except Exception as error:
            problem = problem_of(error)
        else:
            return []
        used = "no limit is known" if self._known is None else f"those of {self._known_at} are used"
        return [Unread(what="the cluster", problem=f"{problem}; {used}")]


def _without_rows(found: Mapping[str, ReadRows]) -> list[Unread]:
    """Return which answers have no rows and should: those that cannot be read, and all if none has any.

    A broker without a client has none.
    """
    is_any = any(each.rows for each in found.values())
    return [
        Unread(what=name, problem=f"answers, but {remark}")
        for name, each in found.items()
        if (each.rejected or not is_any) and (remark := explain_no_rows(each)) is not None
    ]


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
