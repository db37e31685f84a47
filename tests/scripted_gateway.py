"""A cluster that behaves as a script says, for what a real broker cannot be made to do.

* It holds `quotas`. A read answers them, unless `reads` has something else to say: each item is for one read and is
  other quotas, an exception to raise, or `None` for the truth. When the script is over, the truth comes.
* A request has `chunk_size` alterations. `writes` has one `Answer` per request, and when it is over, all goes well;
  `validates` does the same for dry runs, which never change anything.
* It keeps the promises of `Gateway.alter_chunks`: after a request of unknown outcome the rest is `NOT_SENT`, a
  connection that cannot be had raises while the first rows are asked for and makes later ones `NOT_SENT`, and an
  interrupt is raised again after the rows were yielded.
* `sent` and `validated` hold the addresses of every request that reached it, and `log` what happened in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from quotaform.cluster.gateway import BeforeSend, BrokerConfig, Gateway, do_nothing
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.system.clock import Clock as SystemClock
from tests.builder import altered


@dataclass(frozen=True)
class Answer:
    """How one request goes."""

    applies: bool = True  # whether the cluster makes the changes
    outcome: Outcome = Outcome.OK  # what the answer says; UNKNOWN when there is none
    # Entities that the broker refuses, with its code and words
    refused: Mapping[Entity, tuple[int, str]] = field(default_factory=dict)
    # Entities on which the answer says nothing certain, and whether their changes are made all the same
    unsure: Mapping[Entity, bool] = field(default_factory=dict)
    # What the attempt to send ends with: an interrupt while the answer is awaited, or no connection
    raises: BaseException | None = None


FINE = Answer()
ANSWER_LOST = Answer(outcome=Outcome.UNKNOWN)
REQUEST_LOST = Answer(applies=False, outcome=Outcome.UNKNOWN)
NEVER_SHOWN = Answer(applies=False)
NO_CONFIG = BrokerConfig({1: None}, {})
NO_CONNECTION = Answer(applies=False, raises=ClusterError("no connection"))


class ScriptedGateway(Gateway):
    def __init__(
        self,
        quotas: Quotas,
        *,
        reads: Sequence[Quotas | BaseException | None] = (),
        writes: Sequence[Answer] = (),
        validates: Sequence[Answer] = (),
        chunk_size: int = 100,
        cluster_id: str = "3JxQ0v7pT2a",
        is_live: bool = True,
        config: BrokerConfig = NO_CONFIG,
    ) -> None:
        self.name = "lab"
        self.quotas: Quotas = quotas
        self.snapshot = None if is_live else SnapshotFile("lab.json", "2026-11-19T00:00:00Z")
        self.log: list[str] = []
        self.sent: list[list[str]] = []
        self.validated: list[list[str]] = []
        self._reads, self._writes, self._validates = list(reads), list(writes), list(validates)
        self._chunk_size = chunk_size
        self._cluster_id = cluster_id
        self._config = config

    def cluster_id(self) -> str:
        return self._cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        self.log.append("describe")
        answer = self._reads.pop(0) if self._reads else None
        if isinstance(answer, BaseException):
            raise answer
        found = self.quotas if answer is None else answer
        return select({entity: dict(values) for entity, values in found.items()}, entity_filter)

    def broker_config(self, name: str) -> BrokerConfig:
        self.log.append(f"config {name}")
        return self._config

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> Iterator[tuple[AlterRow, ...]]:
        script = self._validates if validate_only else self._writes
        for start in range(0, len(alterations), self._chunk_size):
            chunk, rest = alterations[start : start + self._chunk_size], alterations[start + self._chunk_size :]
            answer = script.pop(0) if script else FINE
            before_send(chunk)
            if isinstance(answer.raises, ClusterError):
                if start == 0:
                    raise answer.raises
                yield _rows(alterations[start:], Outcome.NOT_SENT)
                return
            rows = self._request(chunk, answer, validate_only)
            is_answered = answer.raises is None and answer.outcome is Outcome.OK
            if is_answered and not any(row.outcome is Outcome.UNKNOWN for row in rows):
                yield rows
                continue
            yield rows if is_answered else _rows(chunk, Outcome.UNKNOWN)
            if rest:
                yield _rows(rest, Outcome.NOT_SENT)
            if answer.raises is not None:
                raise answer.raises
            return

    def _request(self, chunk: Sequence[Alteration], answer: Answer, validate_only: bool) -> tuple[AlterRow, ...]:
        addresses = [alteration.entity.address for alteration in chunk]
        (self.validated if validate_only else self.sent).append(addresses)
        self.log.append("validate" if validate_only else "alter")
        if answer.applies and not validate_only:
            made = [
                each for each in chunk if each.entity not in answer.refused and answer.unsure.get(each.entity, True)
            ]
            self.quotas = altered(self.quotas, made)
        return tuple(_row(alteration.entity, answer) for alteration in chunk)

    def close(self) -> None:
        self.log.append("close")


def _row(entity: Entity, answer: Answer) -> AlterRow:
    if entity in answer.refused:
        return AlterRow(entity, Outcome.REFUSED, *answer.refused[entity])
    if entity in answer.unsure:
        return AlterRow(entity, Outcome.UNKNOWN, -1, "scripted: unsure")
    return AlterRow(entity, Outcome.OK)


def _rows(chunk: Sequence[Alteration], outcome: Outcome) -> tuple[AlterRow, ...]:
    return tuple(AlterRow(alteration.entity, outcome, None, f"scripted: {outcome}") for alteration in chunk)


class Clock(SystemClock):
    """A clock that moves when somebody sleeps, which takes no time."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 9, 12, 44, tzinfo=UTC) + timedelta(seconds=self.seconds - 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds


Step = Callable[[Sequence[Any]], Any]


class ScriptedConnection(ClusterConnection):
    """Answers each request with the next step of a script: a function of its alterations, or an error to raise."""

    def __init__(self, script: Iterable[Step | BaseException]) -> None:
        self.cluster_id = "scripted"
        self.brokers = {}
        self.versions = {}
        self._script = list(script)
        self.requests: list[Any] = []
        self.timeouts: list[float] = []

    def send(self, request: Any, *, timeout: float, silence: float | None = None) -> Any:
        request.encode(request.VERSIONS[-1])
        self.requests.append(request)
        self.timeouts.append(timeout)
        step = self._script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step(getattr(request, "alterations", ()))

    def close(self) -> None:
        pass
