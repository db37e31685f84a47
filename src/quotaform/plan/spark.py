"""The blast radius of plans for any number of principals: tasks find the rows of `quotaform.plan.blast_radius`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import pyarrow

from quotaform.model.quotas import NO_VALUES, Quotas, same_values
from quotaform.plan.blast_radius import (
    CHANGE_COLUMNS,
    BlastRadius,
    ChangedLimits,
    ChangedValues,
    LimitChange,
    change_row,
    count_changes,
    joined,
)
from quotaform.resolve.spark import (
    MOST_CLUSTERS,
    PRINCIPALS,
    arrow_schema,
    by_cluster,
    entity_of_row,
    packed,
    principal_columns,
    request_of_row,
    struct,
    unpacked,
)
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LIMIT_CHANGES: Final = struct("cluster string", *(f"{name} {kind}" for name, kind in CHANGE_COLUMNS.items()))
"""The effective limits of principals that a plan changes: the columns of `quotaform.plan.blast_radius.change_row`."""


def blast_radius(principals: DataFrame, clusters: Mapping[str | None, bytes]) -> DataFrame:
    """Return `LIMIT_CHANGES`: the effective limits of principals that change on each of their clusters.

    `principals`: `PRINCIPALS`, each principal once; see `distinct_principals`. `clusters`: those on which anything
    changes: what each holds, and its `ChangedValues`, `packed`.
    """
    return principal_columns(principals).mapInArrow(partial(_find, clusters), LIMIT_CHANGES)


def changes_between(before: Quotas, after: Quotas) -> ChangedValues:
    """Return what two states of a cluster do not hold alike: entities, with keys that stay, too."""
    found = {}
    for entity in {**before, **after}:
        old, new = before.get(entity, NO_VALUES), after.get(entity, NO_VALUES)
        if not same_values(old, new):
            found[entity] = new, tuple({**old, **new})
    return found


@lru_cache(maxsize=MOST_CLUSTERS)
def _limits(content: bytes) -> ChangedLimits:
    return ChangedLimits(*unpacked(content))


def _changed(
    clusters: Mapping[str | None, bytes], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[tuple[str | None, list[list[LimitChange]]]]:
    """Yield a cluster and the changes of each of some principals there; runs on an executor."""
    with rare_collections():
        for cluster, batch in by_cluster(clusters, batches):
            limits = _limits(clusters[cluster])
            names = zip(*(batch.column(name).to_pylist() for name in PRINCIPALS.names), strict=True)
            yield cluster, [list(limits.of(entity_of_row(*each), request_of_row(*each))) for each in names]


def _find(
    clusters: Mapping[str | None, bytes], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    for cluster, found in _changed(clusters, batches):
        rows = [{"cluster": cluster, **change_row(change)} for changes in found for change in changes]
        yield pyarrow.RecordBatch.from_pylist(rows, arrow_schema(LIMIT_CHANGES))


_RADII: Final = struct("cluster string", "radius binary")


def cluster_radii(principals: DataFrame, clusters: Mapping[str | None, bytes]) -> Mapping[str | None, BlastRadius]:
    """Return what `blast_radius` finds on each cluster, in numbers: each task counts the changes that it finds."""
    rows = principal_columns(principals).mapInArrow(partial(_count, clusters), _RADII)
    found: dict[str | None, list[BlastRadius]] = defaultdict(list)
    for row in rows.collect():
        found[row["cluster"]].append(unpacked(row["radius"]))
    return {cluster: joined(radii) for cluster, radii in found.items()}


def _count(
    clusters: Mapping[str | None, bytes], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    counted: dict[str | None, list[BlastRadius]] = defaultdict(list)
    for cluster, found in _changed(clusters, batches):
        counted[cluster].append(count_changes("", found))
    rows = [{"cluster": cluster, "radius": packed(joined(radii))} for cluster, radii in counted.items()]
    yield pyarrow.RecordBatch.from_pylist(rows, arrow_schema(_RADII))


def distinct_principals(principals: DataFrame) -> DataFrame:
    """Return `PRINCIPALS`, each once; per cluster, if they have such a column.

    This is the one step that shuffles principals.
    """
    return principal_columns(principals).distinct()
