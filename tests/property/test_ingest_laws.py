"""Laws of usage: what is ingested, in any order and any number of times, and the formats that it is read from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform.model.entity import canonical_ip
from quotaform.usage.format import FORMATS
from quotaform.usage.format.table import TableMapping
from quotaform.usage.ingest.rows import TableReader, merged_batches, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Rejected, Sample, Series, merge
from tests.usage_documents import WRITERS, Recorded

SERIES = Series("prod", "1", "producer_byte_rate", "alice", None, None, Attribute.RATE)
NAMES = ("alice", "bob")

samples = st.builds(
    lambda name, attribute, ts, value: Sample(
        SERIES._replace(user=name, attribute=attribute), float(ts), float(value), 10.0
    ),
    st.sampled_from(NAMES),
    st.sampled_from(list(Attribute)),
    st.integers(1, 6),
    st.integers(0, 3),
)


@given(st.lists(samples, max_size=12), st.integers(1, 3))
def test_samples_of_a_file_are_merged_series_by_series(found: list[Sample], size: int) -> None:
    rows, dropped = [], Counter[str]()
    for name in NAMES:
        of_name, left_out = merge(each for each in found if each.series.user == name)
        rows += [(row.user, row.ts, row.window_s, row.rate, row.throttle_ms) for row in of_name]
        dropped.update({reason.name: count for reason, count in left_out.items()})
    parsed = [
        batch for at in range(0, len(found), size) for batch in parsed_batches(("f", s) for s in found[at : at + size])
    ]
    parts = pyarrow.Table.from_batches(parsed).sort_by("user") if parsed else None
    batches = parts.to_batches(max_chunksize=size) if parts else []
    merged = [row for batch in merged_batches(iter(batches)) for row in batch.to_pylist()]
    points = [row for row in merged if row["ts"]]
    assert [
        (row["user"], row["ts"].timestamp(), row["window_s"], row["rate"], row["throttle_ms"]) for row in points
    ] == rows
    assert sum(row["samples"] for row in merged) == len(found)
    assert {row["dropped"]: row["samples"] for row in merged if row["dropped"]} == dropped


numbers = st.one_of(st.none(), st.sampled_from([0.0, 1.5, 1.7e9, 1.7e12, 1.7e15, 1.7e18, 1e100, 1e308]), st.floats())
table = st.lists(
    st.tuples(
        numbers,
        st.sampled_from([None, "Produce", "Fetch", "connection_creation_rate", "tokens"]),
        st.sampled_from([None, "", "alice", "bob"]),
        st.sampled_from([None, "prod"]),
        numbers,
        numbers,
    ),
    min_size=1,
    max_size=8,
)
COLUMNS = ("ts", "key", "user", "cluster", "rate", "throttle_ms")


@given(table, st.sampled_from([1.0, 8.0, 1e30]))
def test_columns_of_numbers_are_read_as_rows_of_text_are(rows: list[tuple[object, ...]], factor: float) -> None:
    mapping = TableMapping(columns={name: name for name in COLUMNS}, factors={"rate": factor})
    found = []
    for is_text in (False, True):
        # A time that is text is read row by row.
        cells = [(None if ts is None else repr(ts) if is_text else ts, *others) for ts, *others in rows]
        kinds = ("string" if is_text else "double", "string", "string", "string", "double", "double")
        arrays = map(pyarrow.array, map(list, zip(*cells, strict=True)), kinds)
        place = {
            "quotaform file": pyarrow.nulls(len(rows), "string"),
            "quotaform position": pyarrow.array(range(len(rows))),
        }
        batch = pyarrow.record_batch(dict(zip(COLUMNS, arrays, strict=True)) | place)
        items = Counter[object]()
        for row in (
            row for each in TableReader("t", mapping, Origin(), "row").parsed(iter([batch])) for row in each.to_pylist()
        ):
            ts, value, dropped = row.pop("ts"), row.pop("value"), row["dropped"]
            if ts is not None:
                items.update((*row.values(), *sample) for sample in zip(ts, value, strict=True))
            elif dropped is not None:
                items[dropped] += row["samples"]
            else:
                items[row["position"], row["reason"].partition('"')[0]] += 1
        found.append(+items)
    assert found[0] == found[1]


ORIGIN = Origin("prod", "1")
ODD = st.sampled_from(
    ['"', '""', "a,b:c", "x\\", "*", "%2A", "<default>", ", client-id=", "a=b", "}", " ", "a\nb", "é#"]
)
ODD_NAMES = st.one_of(ODD, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))
FINITE = st.floats(0, 1e15)
TIMES = st.integers(1_700_000_000, 1_700_000_005)


@st.composite
def one_series(draw: st.DrawFn) -> Series:
    key = draw(st.sampled_from(["producer_byte_rate", "consumer_byte_rate", "request_percentage"]))
    user, client_id = draw(
        st.one_of(st.tuples(ODD_NAMES, ODD_NAMES), st.tuples(ODD_NAMES, st.none()), st.tuples(st.none(), ODD_NAMES))
    )
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
