"""The joins make the rows that `diff` makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotaform.core.change import Change
from quotaform.core.difference import diff
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER, REQUEST, declare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
NAMES = st.sampled_from(
    [
        "alice",
        "Alice",
        "alice ",
        "<default>",
        "",
        "x\0y",
        "x",
        "\u00c5",
        "A\u030a",
        "\u212b",
        "\U0001f600",
        'a"b,c=d',
        "null",
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
"""Names that something between here and there could take for one another: by case, padding, Unicode form, NUL."""
TYPES = st.sampled_from(["user", "client-id", "ip", "group", "User"])
ENTITIES = st.dictionaries(TYPES, st.none() | NAMES, min_size=1, max_size=3).map(Entity)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, NAN, 1.0, 1024.0, 2.0**63, 2147483647.0, 5e-324, 0.1 + 0.2])
KNOWN = st.dictionaries(st.sampled_from([PRODUCER, REQUEST]), FLOATS, max_size=2)
LIVE = st.dictionaries(st.sampled_from([PRODUCER, REQUEST, "PRODUCER_BYTE_RATE", "", "new_key"]), FLOATS, min_size=1)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Desired, Quotas]:
    """What files say and what a cluster holds, over entities that they share."""
    entities = draw(st.lists(ENTITIES, unique=True, max_size=6))
    some = st.sampled_from(["declared", "live", "both"])
    places = [(entity, draw(some)) for entity in entities]
    wanted = {entity: draw(KNOWN) for entity, place in places if place != "live"}
    return declare(wanted), {entity: draw(LIVE) for entity, place in places if place != "declared"}


def spell(change: Change) -> tuple[Entity, str, str, str]:
    """A row that can be compared bit for bit: NaN is itself and 0.0 is not -0.0."""
    return change.entity, change.key, repr(change.before), repr(change.after)


def changes_of(spark: SparkSession, clusters: Mapping[str, tuple[Desired, Quotas]]) -> dict[str, set[object]]:
    """The rows of several clusters, made at once."""
    from quotaform.spark.change import changes
    from quotaform.spark.entry import entries
    from quotaform.spark.schemas import QUOTAS, make_table
    from quotaform.spark.source import quota_rows

    rows = [row for name, (_, actual) in clusters.items() for row in quota_rows(name, "id", actual)]
    columns = [[list(row[3].items()) if row[3] and i == 3 else row[i] for row in rows] for i in range(len(QUOTAS))]
    wanted = [entries(spark, desired, name) for name, (desired, _) in clusters.items()]
    declared = wanted[0]
    for more in wanted[1:]:
        declared = declared.unionByName(more)
    found: dict[str, set[object]] = {name: set() for name in clusters}
    for row in changes(declared, make_table(spark, QUOTAS, columns)).collect():
        found[row.cluster].add(spell(Change(Entity(row.entity), row.key, row.before, row.after)))
    return found


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(several=st.lists(cases(), min_size=1, max_size=12))
def test_joins_make_the_rows_that_diff_makes(spark: SparkSession, several: list[tuple[Desired, Quotas]]) -> None:
    clusters = {f"cluster-{number}": case for number, case in enumerate(several)}
    expected = {name: set(map(spell, diff(*case))) for name, case in clusters.items()}
    assert changes_of(spark, clusters) == expected


def test_names_that_look_alike_are_different_entities(spark: SparkSession) -> None:
    names = [
        "alice",
        "Alice",
        "alice ",
        "\u00c5",
        "A\u030a",
        "\u212b",
        "x",
        "x\0",
        "x\0y",
        "",
        "<default>",
        None,
        "null",
    ]
    desired = declare({Entity(user=name): {PRODUCER: float(number)} for number, name in enumerate(names, 1)})
    actual = {Entity(user=name): {PRODUCER: 100.0 + number} for number, name in enumerate(names, 1)}
    found = changes_of(spark, {"lab": (desired, actual)})["lab"]
    assert found == set(map(spell, diff(desired, actual)))
    assert len(found) == len(names)


def test_a_number_is_never_rounded_and_nan_is_nan(spark: SparkSession) -> None:
    same, other = Entity(user="same"), Entity(user="other")
    desired = declare({same: {PRODUCER: 2.0**63, REQUEST: 0.1 + 0.2}, other: {PRODUCER: 2.0**63, REQUEST: 0.0}})
    actual = {same: {PRODUCER: 2.0**63, REQUEST: 0.1 + 0.2}, other: {PRODUCER: NAN, REQUEST: -0.0, "new_key": NAN}}
    found = changes_of(spark, {"lab": (desired, actual)})["lab"]
    assert found == {(other, PRODUCER, "nan", "9.223372036854776e+18")}
