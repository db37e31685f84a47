"""The buckets of recorded series are those that `quotaform.usage.bucket.bucket` finds on each cluster."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.model.quotas import Quotas
from quotaform.usage.bucket.bucket import SeriesBuckets
from tests.property.test_series_bucket import CHANGES, KEYS, SERIES
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import Sample, usage_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELD: dict[str, tuple[Quotas, Quotas]] = {f"c{number}": change for number, change in enumerate(CHANGES[:40])}


@pytest.mark.parametrize("is_changed", [False, True])
def test_each_series_has_its_bucket_under_the_quotas_of_its_cluster(spark: SparkSession, is_changed: bool) -> None:
    from quotaform.usage.bucket.spark import buckets

    rows = [
        Sample(0.0, None, cluster, "1", key, *names, 1.0, None)
        for cluster, key, names in product((*HELD, None, "other"), KEYS, SERIES)
    ]
    series = usage_table(spark, rows)
    after = quota_table(spark, {cluster: after for cluster, (_, after) in HELD.items()})
    before = quota_table(spark, {cluster: before for cluster, (before, _) in HELD.items()}) if is_changed else None
    found: dict[Any, dict[str, Any]] = {
        (row.pop("cluster"), row.pop("key"), (row.pop("user"), row.pop("client_id"), row.pop("ip"))): row
        for row in buckets(series, after, before).toArrow().to_pylist()
    }
    assert len(found) == len(rows)
    for cluster in (*HELD, None, "other"):
        earlier, later = HELD.get(cluster or "", ({}, {}))
        known = SeriesBuckets(later, earlier if is_changed else None)
        for key, names in product(KEYS, SERIES):
            expected = known.of(names, key)._asdict()
            assert found[cluster, key, tuple(names)] == {"entity_key": expected.pop("entity"), **expected}
