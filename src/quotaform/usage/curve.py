"""Usage over time on Spark, as pages draw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
from pyspark.sql import functions as f

from quotaform.fleet.job import kept_rows
from quotaform.model.entity import Entity
from quotaform.report.report import MOST_POINTS, Curve, curve_of
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.bucket import RecordedBucket, RecordedSeries, SeriesBucket
from quotaform.usage.bucket.spark import packed_usage, per_bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CurveKey: TypeAlias = tuple[str, Entity, str]
"""Whose usage a curve is: cluster, entity and quota key."""

_RATES: Final = struct("bucket string", "at long", "rate double")
"""What entities used of each broker; `at` is in microseconds since 1970."""


def entity_curves(usage: DataFrame, wanted: Sequence[CurveKey]) -> dict[CurveKey, Curve]:
    """Return what entities used over time, the highest of all brokers; one is left out if nothing is known of it.

    A broker records the bucket of an entity under the names of the entity. A recording that is finer, as that of a
    client is, is added up, see `quotaform.usage.bucket.bucket`; of an entity with both, that of the brokers
    counts. A default entity is that of many buckets, and has no curve.

    `wanted`: the entities and keys; some dozens.
    """
    named = {
        number: (cluster, entity, key)
        for number, (cluster, entity, key) in enumerate(wanted)
        if None not in entity.names.values()
    }
    if not named:
        return {}
    with kept_rows(packed_usage(usage, partial(_meant, named))) as recording:
        (span,) = recording.agg(f.min("first").alias("first"), f.max("last").alias("last")).toArrow().to_pylist()
        seconds = 0 if span["first"] is None else span["last"] // 1_000_000 - span["first"] // 1_000_000
        step_s = max(1, ceil((seconds + 1) / MOST_POINTS))
        # The highest rate of each slot, at the time of the last one in it.
        slot = f.floor(f.unix_seconds(f.timestamp_micros("at")) / step_s)
        rates = per_bucket(recording, _summed, _RATES).groupBy("bucket", slot)
        highest = rates.agg(f.timestamp_micros(f.max("at")).alias("at"), f.max("rate").alias("rate"))
        points = highest.orderBy("bucket", "at").toArrow().to_pylist()
    found: dict[int, dict[bool, list[tuple[datetime, float]]]] = {}
    for point in points:
        number, exact = point["bucket"].split()
        of_entity = found.setdefault(int(number), {}).setdefault(exact == _EXACT, [])
        of_entity.append((point["at"].astimezone(UTC), point["rate"]))
    return {named[number]: curve_of(each.get(True) or each[False], step_s) for number, each in found.items()}


_EXACT: Final = "exact"


def _meant(named: Mapping[int, CurveKey], series: RecordedSeries) -> Iterator[SeriesBucket]:
    """Yield what a series is a part of: the numbers of entities, and whether it has exactly their names."""
    names = series.names
    for number, (cluster, entity, key) in named.items():
        if (series.cluster, series.key) == (cluster, key) and entity.names.items() <= names.items():
            kind = _EXACT if entity.names == names else "finer"
            yield SeriesBucket(f"{number} {kind}", None, None, None, False, repr(names), None, None, "")


def _summed(bucket: RecordedBucket) -> dict[str, Any]:
    """Return the columns of `_RATES` of an entity on a broker."""
    is_known = ~numpy.isnan(bucket.rows.rate)
    at, rate = bucket.rows.at[is_known], bucket.rows.rate[is_known]
    return {"bucket": [bucket.bucket] * len(at), "at": at, "rate": rate}
