"""Computes the changes between files and clusters with joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.core.change import Change
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.spark.schemas import CHANGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENTITY = ["cluster", "entity_key"]


def changes(entries: DataFrame, quotas: DataFrame) -> DataFrame:
    """Return `schemas.CHANGES`: what `quotaform.core.difference.diff` yields, in no particular order.

    | file | cluster | row |
    | --- | --- | --- |
    | value | none | create |
    | value | another value | update |
    | value | the same value | none; NaN is the same as NaN, and 0.0 as -0.0 |
    | entity without the key | value of a known key | delete |
    | entity without the key | value of an unknown key | none: never touched |
    | no entity | any | none: not looked at |

    Args:
        entries: `schemas.ENTRIES`.
        quotas: `schemas.QUOTAS`.
    """
    wanted = entries.select(*_ENTITY, f.explode("values").alias("key", "after"))
    live = quotas.where(f.col("key").isNotNull()).select(*_ENTITY, "key", f.col("value").alias("before"))
    differs = ~f.col("before").eqNullSafe(f.col("after"))
    is_managed = f.col("after").isNotNull() | f.col("key").isin(*QUOTA_KEYS)
    return (
        wanted.join(live, [*_ENTITY, "key"], "full_outer")
        .where(differs & is_managed)
        .join(entries.select(*_ENTITY, "entity"), _ENTITY)
        .select(*CHANGES.names)
    )


def collect_changes(rows: DataFrame) -> list[Change]:
    """Bring `schemas.CHANGES` to the driver as the rows that a plan is made of."""
    table = rows.toArrow()
    columns = (table.column(name).to_pylist() for name in ("entity", "key", "before", "after"))
    return [Change(Entity.of(names), key, before, after) for names, key, before, after in zip(*columns, strict=True)]
