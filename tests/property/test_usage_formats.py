"""Whatever is recorded is read as it was, in every format, and each of its samples is accounted for."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform.model.entity import canonical_ip
from quotaform.usage.format import FORMATS
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Rejected, Sample, Series, merge
from tests.usage_documents import WRITERS, Recorded

ORIGIN = Origin("prod", "1")
ODD = st.sampled_from(
    ['"', '""', "a,b:c", "x\\", "*", "%2A", "<default>", ", client-id=", "a=b", "}", " ", "a\nb", "é#"]
)
NAMES = st.one_of(ODD, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))
FINITE = st.floats(0, 1e15)
TIMES = st.integers(1_700_000_000, 1_700_000_005)


@st.composite
def one_series(draw: st.DrawFn) -> Series:
    key = draw(st.sampled_from(["producer_byte_rate", "consumer_byte_rate", "request_percentage"]))
    user, client_id = draw(st.one_of(st.tuples(NAMES, NAMES), st.tuples(NAMES, st.none()), st.tuples(st.none(), NAMES)))
    attribute = draw(st.sampled_from([Attribute.RATE, Attribute.THROTTLE_TIME]))
    return Series("prod", "1", key, user, client_id, None, attribute)


CONNECTIONS = st.ip_addresses().map(
    lambda ip: Series("prod", "1", "connection_creation_rate", None, None, _canonical(str(ip)), Attribute.RATE)
)
RECORDED = st.lists(st.builds(Recorded, st.one_of(one_series(), CONNECTIONS), TIMES, FINITE), max_size=6)


def _canonical(ip: str) -> str:
    return canonical_ip(ip) or ip


def unique(recorded: list[Recorded]) -> list[Recorded]:
    """A table of JmxTool has one value per series and time."""
    return list({(each.series, each.ts): each for each in recorded}.values())


def counted(items: list[Item]) -> int:
    """Return how many samples items account for."""
    return sum(item.samples if isinstance(item, Dropped) else 1 for item in items)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60)
@given(recorded=RECORDED.map(unique))
def test_what_is_written_is_read(name: str, recorded: list[Recorded]) -> None:
    items = list(FORMATS[name](WRITERS[name](recorded), ORIGIN))
    found = Counter((item.series, item.ts, item.value) for item in items if isinstance(item, Sample))
    assert found == Counter((each.series, each.ts, each.value) for each in recorded)
    assert not [item for item in items if isinstance(item, Rejected)]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60)
@given(recorded=RECORDED.map(unique), data=st.data())
def test_every_value_is_a_sample_dropped_or_rejected(name: str, recorded: list[Recorded], data: st.DataObject) -> None:
    broken = ["NaN", "Infinity", "-5", "x", ""]
    values = [data.draw(st.sampled_from([*broken, each.value])) for each in recorded]
    changed = [each._replace(value=value) for each, value in zip(recorded, values, strict=True)]
    items = list(FORMATS[name](WRITERS[name](changed), ORIGIN))
    empty = 0
    if name == "jmxtool":
        empty = len({each.series for each in changed}) * len({each.ts for each in changed}) - len(changed)
    assert counted(items) == len(changed) + empty
    assert {item.reason for item in items if isinstance(item, Dropped)} <= {DropReason.NAN, DropReason.MISSING}


SAMPLES = st.lists(
    st.builds(
        lambda attribute, ts, value: Sample(
            Series("prod", "1", "producer_byte_rate", "a", None, None, attribute), ts, value, 11.5
        ),
        st.sampled_from(Attribute),
        st.integers(1, 6).map(float),
        st.integers(0, 5).map(float),
    ),
    max_size=12,
)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_a_merge_accounts_for_all_samples_in_any_order(samples: list[Sample], random: Random) -> None:
    rows, dropped = merge(samples)
    values = sum((row.rate is not None) + (row.throttle_ms is not None) for row in rows)
    assert values + dropped.total() == len(samples)
    assert [row.ts for row in rows] == sorted({row.ts for row in rows})
    shuffled = list(samples)
    random.shuffle(shuffled)
    assert merge(shuffled)[0] == rows


@given(SAMPLES)
def test_a_merge_is_that_of_an_oracle(samples: list[Sample]) -> None:
    def largest(attribute: Attribute) -> dict[float, float]:
        times = {sample.ts for sample in samples if sample.series.attribute is attribute}
        return {
            ts: max(each.value for each in samples if each.ts == ts and each.series.attribute is attribute)
            for ts in times
        }

    rates, totals = largest(Attribute.RATE), sorted(largest(Attribute.TOTAL).items())
    for (before, low), (ts, high) in pairwise(totals):
        if high >= low:
            rates[ts] = max(rates.get(ts, 0.0), (high - low) / (ts - before))
    rows, _ = merge(samples)
    assert {row.ts: row.rate for row in rows if row.rate is not None} == rates
    throttled = {row.ts: row.throttle_ms for row in rows if row.throttle_ms is not None}
    assert throttled == largest(Attribute.THROTTLE_TIME)
