"""Laws of right-sized quotas, for any recording."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from re import search

from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.model.entity import Entity, parse_address
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey
from quotaform.model.scope import Selection
from quotaform.model.units import is_decimal, is_writable, parse_value
from quotaform.usage.recommend.demand import BrokerRecorded, BucketDemand, BusiestDay, Recorded
from quotaform.usage.recommend.recommendation import Action, RecommendSettings, round_up, spell_rounded
from quotaform.usage.recommend.report import value_of
from quotaform.usage.recommend.right_size import recommend
from tests.builder import PRODUCER

LAST = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
KEYS = st.sampled_from(sorted(QUOTA_KEYS.values(), key=lambda key: key.name))
RATES = st.floats(min_value=1e-6, max_value=2.0**62)
SIZES = st.floats(min_value=1.0, max_value=2.0**34)


@given(KEYS, RATES, RATES, st.booleans())
def test_rounding_never_decreases_keeps_the_order_and_leaves_its_results(
    key: QuotaKey, one: float, other: float, decimal: bool
) -> None:
    low, high = sorted((min(one, key.maximum), min(other, key.maximum)))
    rounded = round_up(key, low, decimal=decimal)
    assert low <= rounded <= round_up(key, high, decimal=decimal)
    assert round_up(key, rounded, decimal=decimal) == rounded
    assert is_writable(key, rounded)
    assert parse_value(key, spell_rounded(key, rounded, decimal=decimal)) == rounded
    if low >= 1000:
        assert rounded <= low * 1.25 or rounded == key.maximum


@st.composite
def _buckets(draw: st.DrawFn) -> list[BucketDemand]:
    found = []
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)):
        first = LAST - timedelta(days=(age := draw(st.integers(1, 60))))
        source = draw(st.sampled_from([f"user={name}", "user=<default>", None]))
        found += [
            BucketDemand(
                bucket=f"user={name}",
                key=PRODUCER,
                broker=broker,
                entity_key=source,
                limit=None,
                busiest=BusiestDay(basis=draw(SIZES), day=LAST.date()),
                samples=draw(st.integers(1, 400)),
                throttled=draw(st.sampled_from([0, 0, 5])),
                first=first,
                begin=first - timedelta(seconds=11.5),
                last_used=draw(st.sampled_from([LAST, LAST, LAST - timedelta(days=31)])),
                hours=draw(st.integers(0, age * 24)),
                is_coarse=draw(st.integers(0, 9)) == 0,
            )
            for broker in draw(st.lists(st.sampled_from("12"), unique=True, min_size=1))
        ]
    return found


def _steady(name: str) -> BucketDemand:
    """A bucket that used 20 MiB/s for two months."""
    return BucketDemand(
        bucket=f"user={name}",
        key=PRODUCER,
        broker="1",
        entity_key=f"user={name}",
        limit=None,
        busiest=BusiestDay(basis=20 * 2.0**20, day=LAST.date()),
        samples=400,
        throttled=0,
        first=LAST - timedelta(days=60),
        begin=LAST - timedelta(days=60),
        last_used=LAST,
        hours=1440,
        is_coarse=False,
    )


@example([_steady("a"), _steady("b")], {"a": 30 * 2.0**20, "b": 10 * 2.0**20}, False, 50 * 2.0**20, ["user=b"])
@given(
    _buckets(),
    st.dictionaries(st.sampled_from([*"abcdef", None]), st.integers(1, 2**34).map(float), min_size=1),
    st.booleans(),
    st.integers(1, 2**36).map(float),
    st.lists(st.sampled_from([*(f"user={name}" for name in "abcdef"), "user=<default>"]), unique=True),
)
def test_proposals_fit_the_capacity_or_only_lower_values_and_rest_on_enough_data(
    buckets: list[BucketDemand], held: dict[str | None, float], creates: bool, capacity: float, select: list[str]
) -> None:
    own = {Entity(user=name): {PRODUCER: value} for name, value in held.items()}
    values = {entity.address: values[PRODUCER] for entity, values in own.items()}
    # A bucket is limited by the value that it has itself, else by that of the default.
    limited = [
        replace(each, entity_key=source, limit=values.get(source or ""))
        for each in buckets
        for source in [next((name for name in (each.bucket, "user=<default>") if name in values), None)]
    ]
    settings = RecommendSettings(
        has_creates=creates,
        capacities={"prod": {PRODUCER: capacity}},
        selection=Selection(select=tuple(select)),
    )
    hours: dict[str | None, BrokerRecorded] = {
        name: BrokerRecorded(begin, 720, begin) for begin in [LAST - timedelta(days=60)] for name in ("1", "2")
    }
    found = recommend("prod", own, limited, {PRODUCER: Recorded(last=LAST, brokers=hours)}, settings, LAST)
    after = {**values, **{each.entity.address: each.after for each in found if each.action is not Action.NONE}}
    # Who loses a value has that of the default then.
    of_default = after.get("user=<default>")
    loosened = [
        each
        for each in found
        if each.action is Action.DELETE
        for bucket in limited
        if bucket.bucket == each.entity.address
        if (bucket.basis if of_default is None else of_default) > (each.before or 0)
    ]
    increased = [each for each in found if (each.after or 0) > (each.before or 0)] + loosened
    bases = {each.bucket: max(other.basis for other in limited if other.bucket == each.bucket) for each in limited}
    total: dict[str | None, float] = {}
    for each in limited:
        source = each.bucket if after.get(each.bucket) is not None else "user=<default>"
        limit = after.get(source)
        total[each.broker] = total.get(each.broker, 0.0) + (limit if limit is not None else each.basis)
    assert not increased or all(rate <= capacity * (1 + 1e-9) for rate in total.values())
    for row in found:
        assert not select or row.entity.address in select
        # Of what nobody used for long and nothing limits, a value was to be removed that was not there.
        assert (row.action in (Action.UPDATE, Action.DELETE)) <= (row.before is not None)
        if row.action in (Action.CREATE, Action.UPDATE):
            assert row.samples >= settings.min_samples
            assert row.days >= settings.min_history_days * 0.8
            assert row.after is not None
            assert row.after >= (row.basis or 0)
            assert row.bucket is not None
            assert row.after >= bases[row.bucket]
            assert parse_address(row.bucket)


@given(
    _buckets(),
    st.dictionaries(
        st.sampled_from([*"abcdef", None]),
        st.integers(1, 10_000).flatmap(lambda number: st.sampled_from([number * size for size in (1e3, 1e6, 2.0**20)])),
        min_size=1,
    ),
)
def test_all_rates_of_a_proposal_are_powers_of_1000_or_of_1024(
    buckets: list[BucketDemand], held: dict[str | None, float]
) -> None:
    """Of a value of 10 MB/s it was said that 1.04 MiB/s were used."""
    own = {Entity(user=name): {PRODUCER: value} for name, value in held.items()}
    hours: dict[str | None, BrokerRecorded] = {
        name: BrokerRecorded(begin, 720, begin) for begin in [LAST - timedelta(days=60)] for name in ("1", "2")
    }
    recorded = {PRODUCER: Recorded(last=LAST, brokers=hours)}
    for row in recommend("prod", own, buckets, recorded, RecommendSettings(has_creates=True), LAST):
        if row.action in (Action.CREATE, Action.UPDATE):
            text = f"{value_of(row, row.before).text} {value_of(row, row.after).text} {row.reason} {row.note}"
            binary, decimal = (bool(search(unit, text)) for unit in (r"[KMGTP]iB/s", r" [kMGTP]B/s"))
            assert not (binary and decimal), text
            assert decimal <= is_decimal(QUOTA_KEYS[PRODUCER], row.after if row.before is None else row.before)
