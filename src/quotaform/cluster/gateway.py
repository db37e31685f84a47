"""What quotaform reads and alters: a running cluster, or a snapshot file, which `quotaform snapshot` writes.

A snapshot contains everything that a describe returned, one entity per line, sorted by address, so two snapshots can be
compared line by line. Its schema is `schemas/snapshot.schema.json`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from json import loads
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, Self, TypeVar

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.alteration import Alteration, AlterResult, AlterRow
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ClusterError, FileReadError, InvalidFilesError, UnsupportedError
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.finding import Location
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quotas import Quotas, Snapshot, SnapshotFile, same_values
from quotaform.model.records.document import SNAPSHOT, document_lines
from quotaform.model.records.record import (
    ClusterRecord,
    KeyDoubles,
    Record,
    ShapeError,
    about,
    decode,
    in_order,
    reading,
    refuse_repeated,
    require_few_values,
    written_fields,
)
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import SNAPSHOT_LIMIT, read_text

BeforeSend = Callable[[Sequence[Alteration]], None]
"""Called just before alterations are sent; their outcome is then unknown until the response arrives."""


def do_nothing(chunk: Sequence[Alteration]) -> None:
    """Do nothing."""


class BrokerConfig(Struct, frozen=True):
    """One configuration value, broker by broker."""

    values: Mapping[int, str | None]  # node id to value; `None` when the broker has none
    errors: Mapping[int, ClusterError]  # node id to the reason why it could not be asked


class Connected:
    """What is connected until it is closed, at the end of a `with` at the latest."""

    def close(self) -> None:
        """Close all connections; if called from another thread, abort the request in progress."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Gateway(Connected, ABC):
    """A cluster to read and, unless it is a snapshot, to change."""

    name: str  # what messages call the cluster: its name in quotaform.yaml or its bootstrap servers
    snapshot: SnapshotFile | None = None  # the snapshot that is read instead of a running cluster

    @property
    def broker_count(self) -> int | None:
        """How many brokers the cluster named when it was connected to; `None` if that is not known."""
        return None

    @abstractmethod
    def cluster_id(self) -> str:
        """Return the cluster id."""

    @abstractmethod
    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the quotas of the entities that a filter selects, in one consistent read.

        `timeout` is in seconds, for a read with all its retries. Raises `InvalidRequestError` for a filter that makes
        no sense to the broker (a user with an ip), `UnsupportedError` for an entity type that it does not know, and
        `ClusterError` if the cluster could not be read.
        """

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        """Return the quotas of at least these entities, each of one moment; those that do not exist are left out."""
        return self.describe(timeout=timeout)

    @abstractmethod
    def broker_config(self, name: str) -> BrokerConfig:
        """Ask every broker for one of its configuration values, each on a connection of its own.

        Failures of single brokers are part of the result and are not raised. A snapshot holds no configuration
        and raises `UnsupportedError`.
        """

    def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, progress: Progress = no_progress
    ) -> AlterResult:
        """Send alterations by chunks until an outcome is unknown; rows are in the given order; see `alter_chunks`."""
        rows: list[AlterRow] = []
        for chunk in self.alter_chunks(alterations, validate_only=validate_only):
            rows += chunk
            progress("Validating on the broker" if validate_only else "Applying", len(rows), len(alterations))
        return AlterResult(tuple(rows))

    @abstractmethod
    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> Iterator[tuple[AlterRow, ...]]:
        """Do what `alter` does, one request each time the iterator is asked for the next rows.

        For callers who must know what was done whatever happens: an interrupt (Ctrl-C) while an answer is
        awaited is raised again only after the rows of that request were yielded as `UNKNOWN` and the rest as
        `NOT_SENT`. `before_send` is called with the alterations of each request before any byte of it is sent.

        Raises `ValueError` at once for two alterations of one entity, or one that no broker could read; `ClusterError`
        while the first rows are asked for: nothing at all was sent.
        """


Made = TypeVar("Made")

_BULK_ENTITIES: Final = 50
_BULK_SHARE: Final = 0.02
_MAX_WAIT: Final = 60.0

SETTLE_SECONDS: Final = 3.0
"""How long a read with unexpected values is repeated: a broker shows an acknowledged change late."""


def bulk_of(different: int, entities: int) -> int:
    """Return how many of the entities differ when that looks like a bulk change (2 %, and at least 50), else 0."""
    return different if different >= max(_BULK_ENTITIES, _BULK_SHARE * entities) else 0


def read_settled(
    reader: Gateway,
    make: Callable[[Quotas], Made],
    bulk: Callable[[Made, Quotas], int],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Made:
    """Read all quotas of a cluster and make something of them; read again when they differ in bulk.

    A describe right after a bulk change is a mixture of before and after: 100,000 acknowledged entities
    took up to 20 s to show. When what was made of the first read differs in bulk, it counts only once a second
    read, taken a moment later, is equal to the first. `make` is called while the cluster is given time, and again
    with a later read. `bulk` says how many entities differ in bulk; 0 when one read is enough. Raises
    `ClusterError` if it kept changing for a minute.
    """
    progress(f"Reading quotas of {spell_name(reader.name)}", 0, 0)
    read_at = clock.monotonic()
    deadline = read_at + _MAX_WAIT
    actual = reader.describe()
    made = make(actual)
    # Only the answers of a running cluster may change from one read to the next.
    different = bulk(made, actual) if reader.snapshot is None else 0
    if not different:
        return made
    pause = min(1.0, max(0.05, different / 100_000))
    while True:
        progress("Reading again: many entities differ, a change may be in progress", 0, 0)
        clock.sleep(max(0.0, pause - (clock.monotonic() - read_at)))
        read_at = clock.monotonic()
        again = reader.describe()
        if is_same(actual, again):
            return made
        if clock.monotonic() > deadline:
            raise ClusterError(
                f"the quotas of {reader.name} kept changing for {_MAX_WAIT:.0f} s while they were read",
                remedy="wait until the changes are complete, then try again",
                cluster=reader.name,
            )
        actual, made = again, make(again)


def read_actual(reader: Gateway, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress) -> Quotas:
    """Read all quotas of a cluster; see `read_settled`. Many entities count as a difference, whatever files declare."""

    def bulk(_: Quotas, actual: Quotas) -> int:
        return bulk_of(len(actual), len(actual))

    return read_settled(reader, lambda actual: actual, bulk, clock=clock, progress=progress)


def is_same(one: Quotas, other: Quotas) -> bool:
    """Whether two reads are equal; a NaN equals a NaN."""
    return one == other or (
        one.keys() == other.keys() and all(same_values(values, other[entity]) for entity, values in one.items())
    )


class SnapshotGateway(Gateway):
    """A snapshot, which can be read, and nothing else."""

    def __init__(self, snapshot: Snapshot, *, name: str | None = None, path: str = "") -> None:
        self.name = name or snapshot.cluster_name
        self.snapshot = SnapshotFile(path, snapshot.captured_at)
        self._snapshot = snapshot

    def cluster_id(self) -> str:
        return self._snapshot.cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        return select(self._snapshot.quotas, entity_filter)

    def broker_config(self, name: str) -> BrokerConfig:
        raise UnsupportedError(f"{self.name} is a snapshot, which contains no configuration of brokers.")

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> NoReturn:
        raise ClusterError(f"{self.name} is a snapshot, which cannot be changed; choose a running cluster.")


class SnapshotItem(Record):
    """The quotas of one entity."""

    entity: Entity
    values: KeyDoubles


class SnapshotDocument(Record, document=SNAPSHOT):
    """All client quotas of a Kafka cluster at one moment, as quotaform snapshot writes them."""

    cluster: ClusterRecord
    captured_at: Annotated[str, about("When it was read, as ISO 8601 in UTC.")]
    quotas: Annotated[list[SnapshotItem], about("One item per entity, sorted by address.")]


def dump_snapshot(snapshot: Snapshot) -> str:
    """Return a snapshot as text; equal snapshots give equal text."""
    rows = sorted((entity.address, entity, values) for entity, values in snapshot.quotas.items() if values)
    items: Any = (SnapshotItem(entity=entity, values=in_order(values)) for _, entity, values in rows)  # one at a time
    cluster = ClusterRecord(name=snapshot.cluster_name, id=snapshot.cluster_id)
    document = SnapshotDocument(cluster=cluster, captured_at=snapshot.captured_at, quotas=items)
    return "".join(document_lines(written_fields(document, {"quotas"}), {"quotas"}))


def read_snapshot(path: Path, *, within: Path | None = None) -> Snapshot:
    """Read a snapshot, which must lie `within` a folder if one is given. Raises `InvalidFilesError` if it is none."""
    try:
        return load_snapshot(read_text(path, SNAPSHOT_LIMIT, within=within), str(path))
    except FileReadError as error:
        problem = f"it cannot be read: {error.reason}"
        if error.is_missing:
            problem = "there is no such file; quotaform snapshot writes one"
    raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=Location(str(path)))])


def load_snapshot(text: str, file: str) -> Snapshot:
    """Read a snapshot; `file` is its name in messages. Raises `InvalidFilesError` with the first that is wrong."""
    content = text.encode(errors="surrogatepass")
    try:
        with reading(content, SNAPSHOT):
            require_few_values(content)
            document = decode(content, SnapshotDocument)
            loads(content, object_pairs_hook=refuse_repeated)
            quotas: dict[Entity, Mapping[str, float]] = {}
            for index, item in enumerate(document.quotas):
                if item.entity in quotas:
                    raise ShapeError(f"quotas[{index}]", f"is a second one of {item.entity.address}")
                quotas[item.entity] = item.values
            return Snapshot(
                cluster_name=document.cluster.name,
                cluster_id=document.cluster.id,
                captured_at=document.captured_at,
                quotas=quotas,
            )
    except ShapeError as error:
        problem = f"this is not a valid snapshot: {error}; take the snapshot again"
        raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=Location(file))]) from None
