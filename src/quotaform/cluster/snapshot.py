"""A snapshot: its file, which `quotaform snapshot` writes, and the gateway that reads it instead of a cluster.

The file contains everything that a describe returned, one entity per line, sorted by address, so two snapshots can be
compared line by line. Its schema is `schemas/snapshot.schema.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import loads
from pathlib import Path
from typing import Annotated, NoReturn

from quotaform.cluster.gateway import BeforeSend, BrokerConfig, Gateway, do_nothing
from quotaform.model import rule
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, FileReadError, InvalidFilesError, UnsupportedError
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.finding import Location
from quotaform.model.quotas import Quotas, Snapshot, SnapshotFile
from quotaform.model.records.document import (
    MOST_VALUES,
    SNAPSHOT,
    KindError,
    document_lines,
    has_too_many_values,
    refuse_repeated,
)
from quotaform.model.records.record import (
    ClusterRecord,
    KeyDoubles,
    Record,
    ShapeError,
    about,
    builtins,
    decode,
    in_order,
    reading,
)
from quotaform.system.files import SNAPSHOT_LIMIT, read_text


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
    fields = {
        "format_version": SNAPSHOT.version,
        "kind": SNAPSHOT.kind,
        "cluster": {"name": snapshot.cluster_name, "id": snapshot.cluster_id},
        "captured_at": snapshot.captured_at,
        "quotas": (builtins(SnapshotItem(entity=entity, values=in_order(values))) for _, entity, values in rows),
    }
    return "".join(document_lines(fields.items(), {"quotas"}))


def read_snapshot(path: Path, *, within: Path | None = None) -> Snapshot:
    """Read a snapshot file.

    `within` is the folder that it must lie in; `None` for one that the operator names. Raises `InvalidFilesError` if it
    cannot be read or is no snapshot.
    """
    try:
        return load_snapshot(read_text(path, SNAPSHOT_LIMIT, within=within), str(path))
    except FileReadError as error:
        problem = f"it cannot be read: {error.reason}"
        if error.is_missing:
            problem = "there is no such file; quotaform snapshot writes one"
    raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=Location(str(path)))])


def load_snapshot(text: str, file: str) -> Snapshot:
    """Read a snapshot.

    `file` is its name for messages. Raises `InvalidFilesError` if it is no snapshot that this version reads; with the
    first thing that is wrong.
    """
    content = text.encode(errors="surrogatepass")
    try:
        with reading(content, SNAPSHOT):
            if has_too_many_values(content):
                raise ShapeError("", f"it contains more than the limit of {MOST_VALUES:,} values")
            document = decode(content, SnapshotDocument)
            loads(content, object_pairs_hook=refuse_repeated)
            quotas = _quotas(document.quotas)
    except ShapeError as error:
        problem = f"this is not a valid snapshot: {error}; take the snapshot again"
    except KindError:
        problem = f'this is not a snapshot: its "kind" is not "{SNAPSHOT.kind}"; quotaform snapshot writes one'
    else:
        return Snapshot(
            cluster_name=document.cluster.name,
            cluster_id=document.cluster.id,
            captured_at=document.captured_at,
            quotas=quotas,
        )
    raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=Location(file))])


def _quotas(items: Sequence[SnapshotItem]) -> Quotas:
    """Return what items say. Raises `ShapeError` if one says something else than a broker does."""
    quotas: dict[Entity, Mapping[str, float]] = {}
    for index, item in enumerate(items):
        if item.entity in quotas:
            raise ShapeError(f"quotas[{index}]", f"is a second one of {item.entity.address}")
        quotas[item.entity] = item.values
    return quotas
