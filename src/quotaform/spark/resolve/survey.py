"""What quotas hold, level by level: with that, only those joins are made that can find something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.errors import EngineError
from quotaform.model.precedence import PRECEDENCES
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.spark.resolve.address import is_plain
from quotaform.spark.resolve.level import LEVEL_OF, source_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

MOST_KEYS: Final = 64
"""How many quota keys a level may hold: each is several columns beside every principal."""

_OVERHEAD: Final = 64
"""About as many bytes a row takes in a hash table besides its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSurvey:
    """What quotas hold on one level.

    Attributes:
        entities: How many entities, about.
        size: How many bytes they take when they are broadcast, about.
        is_respelled: Whether there are names of which another spelling may be the canonical one.
        defaults: Of a level that names nothing, in a single cluster: key to value.
    """

    keys: frozenset[str]
    entities: int
    size: int
    is_respelled: bool
    defaults: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSurvey:
    """What quotas hold.

    Attributes:
        clusters: The clusters that were read; empty when the quotas have no such column.
        levels: The levels on which there is something, by source.
    """

    clusters: tuple[str, ...] = ()
    levels: Mapping[str, LevelSurvey] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The known quota keys and those that the quotas hold, in the order in which they print."""
        held = {key for level in self.levels.values() for key in level.keys}
        return tuple(sorted({*QUOTA_KEYS, *held}, key=key_order))

    def keys_of(self, source: str) -> frozenset[str]:
        """Return the keys that a level holds."""
        return self.levels[source].keys if source in self.levels else frozenset()


def survey(quotas: DataFrame) -> QuotaSurvey:
    """Look through quotas: one Spark job, whose result is a few rows.

    Args:
        quotas: `schemas.QUOTAS`; `cluster` and `failure` may be missing.

    Raises:
        EngineError: They hold too many unknown keys.
    """
    is_read = f.col("failure").isNull() if "failure" in quotas.columns else f.lit(True)
    cluster = f.col("cluster") if "cluster" in quotas.columns else f.lit(None).cast("string")
    rows = quotas.where(is_read).select(
        cluster.alias("cluster"),
        source_of(f.col("entity")).alias("source"),
        f.when(f.col("value").isNotNull(), f.col("key")).alias("key"),
        "value",
        f.octet_length("entity_key").alias("length"),
        _is_respelled().alias("is_respelled"),
    )
    # Counted twice: the first time by what Spark generates fast code for, which leaves few rows.
    by_cluster = rows.groupBy("cluster", "source", "key").agg(
        f.count("*").alias("entities"),
        f.sum("length").alias("length"),
        f.max("is_respelled").alias("is_respelled"),
        f.max("value").alias("value"),
    )
    found = (
        by_cluster.groupBy("source")
        .agg(
            f.collect_set("cluster").alias("clusters"),
            f.slice(f.collect_set("key"), 1, MOST_KEYS + 1).alias("keys"),
            f.sum("entities").alias("values"),
            f.sum("length").alias("length"),
            f.max("is_respelled").alias("is_respelled"),
            f.slice(f.collect_list(f.when(f.col("key").isNotNull(), f.struct("key", "value"))), 1, MOST_KEYS).alias(
                "defaults"
            ),
        )
        .collect()
    )
    if any(len(row["keys"]) > MOST_KEYS for row in found):
        raise EngineError(
            f"The quotas hold more than {MOST_KEYS} quota keys, of which this version knows {len(QUOTA_KEYS)}; "
            "remove the others."
        )
    return QuotaSurvey(
        clusters=tuple(sorted({name for row in found for name in row.clusters})),
        levels={row.source: _level(row) for row in found if row.source is not None and row["keys"]},
    )


def _level(row: Row) -> LevelSurvey:
    level, keys = LEVEL_OF[row.source], frozenset(row["keys"])
    # Exact if all entities hold the same keys.
    entities = row["values"] // len(keys)
    length = row.length // row["values"]
    return LevelSurvey(
        keys=keys,
        entities=entities,
        size=entities * (_OVERHEAD + 2 * length + 8 * len(keys)),
        is_respelled=row.is_respelled,
        defaults={} if level.named else {each.key: each.value for each in row.defaults},
    )


def _is_respelled() -> Column:
    """Return whether the entity has a name of which another spelling may be the canonical one."""
    found = f.lit(False)
    for precedence in PRECEDENCES:
        for entity_type in precedence.canonical:
            name = f.col("entity")[entity_type]
            found |= f.coalesce(~is_plain(entity_type, name), f.lit(False))
    return found
