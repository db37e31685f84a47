"""The buckets of recorded series agree with `quotaform.core.resolve`; no series that is split is taken for whole."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import CONNECTION, MUTATION, PRODUCER
from tests.spark.test_resolved import quota_table
from tests.spark.test_usage_headroom import ENTITIES, usage_table
from tests.spark.usage_oracle import TYPES, FoundBucket, Sample, bucket_of, limit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS: Final = (PRODUCER, MUTATION, CONNECTION)
USERS: Final = ("alice", "bob", "nobody", None)
CLIENTS: Final = ("app", "web", "", None)
ODD: Final = (Entity(client_id=""), Entity(user="alice", client_id=""), Entity(user="nobody", client_id="web"))
SERIES: Final = (*product(USERS, CLIENTS, (None,)), *((None, None, ip) for ip in ("10.0.0.1", "0:0::1", "no-ip")))

Names = tuple[str | None, str | None, str | None]


def some_quotas(random: Random) -> Quotas:
    chosen = random.sample((*ENTITIES, *ODD), random.randrange(0, 6))
    return {
        entity: {key: float(random.randrange(1, 9)) for key in ([CONNECTION] if "ip" in entity.types else KEYS[:2])}
        for entity in chosen
    }


@pytest.fixture(scope="module")
def held() -> dict[str, tuple[Quotas, Quotas]]:
    """The quotas of clusters before and after a change; each cluster is an example of its own."""
    random = Random(7)
    return {f"c{number}": (some_quotas(random), some_quotas(random)) for number in range(60)}


def by_series(spark: SparkSession, held: dict[str, Quotas], before: dict[str, Quotas] | None) -> dict[Any, FoundBucket]:
    """What `buckets` finds for each series on each cluster."""
    from quotaform.spark.usage.bucket import buckets, recorded_series

    rows = [
        Sample(0.0, None, cluster, "1", key, *names, 1.0, None)
        for cluster, key, names in product((*held, None, "other"), KEYS, SERIES)
    ]
    series = recorded_series(usage_table(spark, rows)).persist()
    was = None if before is None else quota_table(spark, before).persist()
    found = buckets(series, quota_table(spark, held).persist(), was).toArrow().to_pylist()
    assert len(found) == len(rows)
    return {
        (row["cluster"], row["key"], (row["user"], row["client_id"], row["ip"])): FoundBucket(
            *(row[name] for name in FoundBucket._fields)
        )
        for row in found
    }


def named(names: Names) -> dict[str, str | None]:
    return dict(zip(TYPES.values(), names, strict=True))


def test_each_series_has_the_bucket_that_resolve_says(spark: SparkSession, held: Any) -> None:
    quotas = {cluster: after for cluster, (_, after) in held.items()}
    found = by_series(spark, quotas, None)
    expected = {place: bucket_of(quotas.get(place[0] or "", {}), named(place[2]), place[1]) for place in found}
    assert {place: (found[place], row) for place, row in expected.items() if found[place] != row} == {}


def is_split(before: Quotas, after: Quotas, names: Names, key: str) -> bool:
    """Whether requests that a broker measured as one series, or may have, have buckets by a name that it lacks.

    All clients are tried that there can be: each of a name that quotas mention, and one of a name that none does.
    """
    user, client, ip = names
    if ip is not None:
        return False
    for each in product((user,) if user is not None else USERS, (client,) if client is not None else CLIENTS):
        asked = named((*each, None))
        measured, limit = limit_of(before, asked, key), limit_of(after, asked, key)
        if measured.level is not None:
            tags = tuple(
                each[place] if kind in measured.level.bucket else None
                for place, kind in enumerate(("user", "client-id"))
            )
            is_of_series = tags == (user, client)
        else:
            is_of_series = True
        lacks = [kind for kind, name in zip(("user", "client-id"), (user, client), strict=True) if name is None]
        if is_of_series and limit.level is not None and set(lacks) & set(limit.level.bucket):
            return True
    return False


def is_measured(before: Quotas, names: Names, key: str) -> bool:
    """Whether a broker could measure clients by these names, and no others."""
    level = limit_of(before, named(names), key).level
    return level is None or all((kind in level.bucket) == (name is not None) for kind, name in named(names).items())


def test_no_series_is_taken_for_whole_that_a_change_splits(spark: SparkSession, held: Any) -> None:
    """An entry for a client-id that another one overrode was overlooked when the other one was removed."""
    after = {cluster: after for cluster, (_, after) in held.items()}
    before = {cluster: before for cluster, (before, _) in held.items()}
    found = by_series(spark, after, before)
    split = {
        place
        for place in found
        if is_split(before.get(place[0] or "", {}), after.get(place[0] or "", {}), place[2], place[1])
    }
    coarse = {place for place, row in found.items() if row.is_coarse}
    assert split - coarse == set()
    # What an entry takes may have been measured by another one, which is not looked for.
    possible = {place for place in coarse if is_measured(before.get(place[0] or "", {}), place[2], place[1])}
    assert len(possible - split) < len(split) / 10
