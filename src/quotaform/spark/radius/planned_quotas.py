"""The quotas of a planned cluster on their way from the task that planned it to the tables of the blast radius."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps, loads
from typing import TYPE_CHECKING, Any
from zlib import decompressobj

from pyspark.sql import functions as f

from quotaform.core.canonical import json_number
from quotaform.core.plan import Plan
from quotaform.document.field import load_number
from quotaform.model.entity import Entity
from quotaform.spark.resolve.address import CANONICAL
from quotaform.spark.schemas import PLANNED_QUOTAS, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow
    from pyspark.sql import DataFrame


def planned_quota_lines(plan: Plan) -> Iterator[str]:
    """Yield what a cluster holds and a plan changes, as JSON lines: entity, key, value before and after, changed.

    Of what stays there are the keys that change somewhere, and all keys of addresses, whose entries can take each
    other's place. A plan without changes has no lines.
    """
    changed = {(row.entity, row.key) for change in plan.changes for row in change.changes}
    keys = {key for _, key in changed}
    for entity, values in (plan.actual or {}).items() if changed else ():
        has_spellings = not CANONICAL.keys().isdisjoint(entity.types)
        for key, value in values.items():
            if (key in keys or has_spellings) and (entity, key) not in changed:
                yield _line(entity, key, value, value, is_changed=False)
    for change in plan.changes:
        for row in change.changes:
            yield _line(row.entity, row.key, row.before, row.after, is_changed=True)


def _line(entity: Entity, key: str, before: float | None, after: float | None, *, is_changed: bool) -> str:
    return f"{dumps([entity.parts, key, json_number(before), json_number(after), is_changed])}\n"


def planned_quotas_of(outcomes: DataFrame, document: str, clusters: Sequence[str]) -> DataFrame:
    """Return `schemas.PLANNED_QUOTAS` of the outcomes of clusters.

    Args:
        outcomes: `schemas.OUTCOMES`, with `planned_quota_lines` as a document.
        document: The name of that document.
        clusters: The names of the clusters, by place.
    """

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        schema = arrow_schema(PLANNED_QUOTAS)
        place, lines = -1, DocumentLines()
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                if row["place"] != place:
                    place, lines = row["place"], DocumentLines()
                rows += [_row(clusters[place], line) for line in lines.add(row["content"])]
            yield pyarrow.RecordBatch.from_pylist(rows, schema)

    return outcomes.where(f.col("name") == document).mapInArrow(read, PLANNED_QUOTAS).select(*PLANNED_QUOTAS.names)


class DocumentLines:
    """The lines of a document whose compressed parts come one after the other."""

    def __init__(self) -> None:
        self._decompressor = decompressobj()
        self._rest = b""

    def add(self, content: bytes) -> list[bytes]:
        """Return the lines that are complete with a part."""
        *lines, self._rest = (self._rest + self._decompressor.decompress(content)).split(b"\n")
        return lines


def _row(cluster: str, line: bytes) -> dict[str, Any]:
    parts, key, before, after, is_changed = loads(line)
    entity = Entity.of([(kind, name) for kind, name in parts])
    return {
        "cluster": cluster,
        "entity_key": entity.address,
        "entity": list(entity.parts),
        "key": key,
        "before": load_number(before),
        "after": load_number(after),
        "changed": is_changed,
    }
