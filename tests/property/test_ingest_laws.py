"""Laws of usage: what is ingested, in any order and any number of times, in every format; and what is added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from random import Random
from typing import Any, NamedTuple

import numpy
import pyarrow
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from quotaform.model.entity import canonical_ip
from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE, QUOTA_WINDOW_S
from quotaform.usage.bucket.bucket import BucketRows, bucket_rows
from quotaform.usage.format import FORMATS, parse
from quotaform.usage.format.table import TableMapping
from quotaform.usage.ingest.rows import merged_batches, parsed_batches, table_items
from quotaform.usage.metric_name import Origin
from quotaform.usage.record.recording import read_rows
from quotaform.usage.replay.replay import asked_rates
from quotaform.usage.sample import LONGEST_STEP_S, Attribute, Dropped, DropReason, Item, Rejected, Sample, Series
from tests.kafka_windows import mutation_rate, recorded_rates
from tests.property.test_series_bucket import replayed
from tests.usage_documents import WRITERS, Recorded

SERIES = Series("prod", "1", "producer_byte_rate", "alice", None, None)
NAMES = ("alice", "bob")


def samples_of(*names: str) -> st.SearchStrategy[list[Sample]]:
    return st.lists(
        st.builds(
            lambda name, attribute, ts, value: Sample(
                SERIES._replace(user=name, attribute=attribute), float(ts), float(value), 10.0
            ),
            st.sampled_from(names),
            st.sampled_from(Attribute),
            st.integers(1, 6),
            st.integers(0, 5),
        ),
        max_size=12,
    )


def merged(samples: Sequence[Sample], size: int = 3) -> list[dict[str, Any]]:
    """What tasks make of samples, with so many of them in a batch."""
    parts = (samples[at : at + size] for at in range(0, len(samples), size))
    parsed = [batch for part in parts for batch in parsed_batches((("f", None), each) for each in part)]
    whole = pyarrow.Table.from_batches(parsed).sort_by("user") if parsed else None
    batches = whole.to_batches(max_chunksize=size) if whole else []
    return [row for batch in merged_batches(iter(batches)) for row in batch.to_pylist()]


@given(samples_of(*NAMES), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_merge_accounts_for_all_samples_in_any_order_as_an_oracle_does(
    samples: list[Sample], size: int, random: Random
) -> None:
    def largest(name: str, attribute: Attribute) -> dict[float, float]:
        series = SERIES._replace(user=name, attribute=attribute)
        own = sorted((each.ts, each.value) for each in samples if each.series == series)
        return dict(own)

    for given_samples in (samples, random.sample(samples, len(samples))):
        rows = merged(given_samples, size)
        assert sum(row["samples"] for row in rows) == len(samples)
        for name in NAMES:
            rates = largest(name, Attribute.RATE)
            for (before, low), (ts, high) in pairwise(largest(name, Attribute.TOTAL).items()):
                if high >= low:
                    rates[ts] = max(rates.get(ts, 0.0), (high - low) / (ts - before))
            own = {row["ts"].timestamp(): row for row in rows if row["ts"] and row["user"] == name}
            assert len(own) == sum(row["user"] == name for row in rows)
            assert {ts: row["rate"] for ts, row in own.items() if row["rate"] is not None} == rates
            throttled = {ts: row["throttle_ms"] for ts, row in own.items() if row["throttle_ms"] is not None}
            assert throttled == largest(name, Attribute.THROTTLE_TIME)


@given(samples_of(*NAMES))
def test_an_answer_has_the_rows_that_an_ingest_makes_of_it_and_no_counter_has_a_rate(samples: list[Sample]) -> None:
    gauges = [each for each in samples if each.series.attribute is not Attribute.TOTAL]
    names = ("user", "window_s", "rate", "throttle_ms")
    read, rows = read_rows(samples), [row for row in merged(gauges) if row["ts"]]
    assert Counter((row.ts, *(getattr(row, name) for name in names)) for row in read.rows) == Counter(
        (row["ts"].timestamp(), *(row[name] for name in names)) for row in rows
    )
    values = sum((row.rate is not None) + (row.throttle_ms is not None) for row in read.rows)
    assert values + read.dropped.total() == len(samples)
    assert read.dropped[DropReason.FIRST_TOTAL] == len(samples) - len(gauges)


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
        read = table_items([batch], "t", mapping, Origin(), "row")
        for row in (row for each in parsed_batches(read) for row in each.to_pylist()):
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
    return Series("prod", "1", key, user, client_id, None, attribute=attribute)


CONNECTIONS = st.ip_addresses().map(
    lambda ip: Series("prod", "1", "connection_creation_rate", None, None, _canonical(str(ip)))
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
    items = list(parse(name, WRITERS[name](recorded), ORIGIN))
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
    items = list(parse(name, WRITERS[name](changed), ORIGIN))
    empty = 0
    if name == "jmxtool":
        empty = len({each.series for each in changed}) * len({each.ts for each in changed}) - len(changed)
    assert counted(items) == len(changed) + empty
    assert {item.reason for item in items if isinstance(item, Dropped)} <= {DropReason.NAN, DropReason.MISSING}


SECOND = 1_000_000


class Row(NamedTuple):
    """A sample; an instance of 0 is that of a series without one."""

    at: int
    member: int
    instance: int
    rate: float
    window_s: float
    throttle_ms: float


rows_of = st.lists(
    st.builds(
        Row,
        at=st.one_of(st.integers(0, 12), st.integers(0, 40).map(lambda each: each * 60), st.integers(590, 1300)),
        member=st.integers(1, 2),
        instance=st.integers(0, 3),
        rate=st.sampled_from([nan, 0.0, 1.0, 2.5, 4.0, 1024.0]),
        window_s=st.sampled_from([nan, 1.0, 11.5, 60.0, 300.0, 700.0, 1e12]),
        throttle_ms=st.sampled_from([nan, nan, 30.0, 40.0]),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: (row.at, row.member, row.instance),
)


def summed(rows: Sequence[Row]) -> BucketRows:
    columns = list(zip(*rows, strict=True))
    series = [instance << 32 | member for member, instance in zip(columns[1], columns[2], strict=True)]
    numbers = (numpy.array(column, dtype=float) for column in columns[3:])
    names = ("at", "series_id", "rate", "window_s", "throttle_ms")
    return bucket_rows(dict(zip(names, (numpy.array(columns[0]) * SECOND, numpy.array(series), *numbers), strict=True)))


def standing_for(rows: Sequence[Row], at: int) -> tuple[Row, Row | None] | None:
    """The first sample of a series at or after a time, if it stands for it; and the one before it."""
    later = [place for place, row in enumerate(rows) if row.at >= at]
    if not later:
        return None
    row = rows[later[0]]
    before = rows[later[0] - 1] if later[0] else None
    window = QUOTA_WINDOW_S if isnan(row.window_s) else row.window_s
    if row.at == at or (before is not None and row.at - before.at <= LONGEST_STEP_S) or at > row.at - window:
        return row, before
    return None


def expected(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What is used at each time, by loops."""
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows):
        series.setdefault((row.member, row.instance), []).append(row)
    found: list[dict[str, Any]] = []
    for at in sorted({row.at for row in rows}):
        parts: dict[int, dict[int, float]] = {}
        highs: dict[int, dict[int, float]] = {}
        windows, throttle_times, is_new = [], [], False
        for (member, instance), own in series.items():
            rated = standing_for([row for row in own if not isnan(row.rate)], at)
            if rated is not None:
                row, before = rated
                parts.setdefault(member, {})[instance] = row.rate
                window = QUOTA_WINDOW_S if isnan(row.window_s) else min(row.window_s, 1e9)
                windows.append(at - row.at + window)
                is_covered = bool(found) and row.at - window <= found[-1]["at"]
                is_near = before is not None and row.at - before.at <= LONGEST_STEP_S
                rates = [row.rate, before.rate] if before is not None and is_near and not is_covered else [row.rate]
                highs.setdefault(member, {})[instance] = max(rates)
            throttled = standing_for(own, at)
            if throttled is not None and not isnan(throttled[0].throttle_ms):
                row, before = throttled
                throttle_times.append(row.throttle_ms)
                is_new |= before is None or before.throttle_ms != row.throttle_ms
        of_members = {member: _of_member(own) for member, own in parts.items()}
        found.append(
            {
                "at": at,
                "rate": sum(of_members.values()) if of_members else None,
                "rate_high": sum(map(_of_member, highs.values())) if highs else None,
                "window_s": max(0.0, min(windows)) if windows else None,
                "throttle_ms": max(throttle_times, default=None),
                "is_new": is_new,
                "members": of_members,
            }
        )
    return found


def _of_member(rates: Mapping[int, float]) -> float:
    return max(rates.get(0, 0.0), sum(rate for instance, rate in rates.items() if instance))


@given(rows_of)
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(600, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(601, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 9.0, 60.0, nan), Row(240, 1, 2, 1.0, 60.0, nan), Row(300, 1, 1, 1.0, 60.0, nan)])
def test_the_sum_is_that_of_the_oracle(rows: list[Row]) -> None:
    assume(any(row.instance for row in rows) and len({row[1:3] for row in rows}) > 1)
    found, wanted = summed(rows), expected(rows)
    assert found.rate_high is not None
    assert (found.at // SECOND).tolist() == [each["at"] for each in wanted]
    for name in ("rate", "rate_high", "window_s", "throttle_ms"):
        values = [None if isnan(value) else value for value in getattr(found, name).tolist()]
        assert values == pytest.approx([each[name] for each in wanted]), name
    assert found.is_newly_throttled.tolist() == [each["is_new"] for each in wanted]
    members = sorted({row.member for row in rows})
    assert found.members.tolist() == members
    totals = [sum(each["members"].get(member, 0.0) for each in wanted) for member in members]
    assert found.totals.tolist() == pytest.approx(totals)


@given(rows_of)
def test_each_second_of_a_client_counts_once(rows: list[Row]) -> None:
    """Bytes are kept: without gaps, the sum over steps is the sum over each client's own steps."""
    own = [
        row._replace(at=row.at % 13, rate=0.0 if isnan(row.rate) else row.rate, instance=row.instance or 1)
        for row in rows
    ]
    own = list({(row.at, row.member, row.instance): row for row in own}.values())
    # Each client has a sample at the beginning.
    own = [row for row in own if row.at] + [
        Row(0, member, instance, 0.0, 11.5, nan) for member, instance in {(row.member, row.instance) for row in own}
    ]
    found = summed(own)
    whole = float((found.rate[1:] * numpy.diff(found.at)).sum()) / SECOND
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(own):
        series.setdefault((row.member, row.instance), []).append(row)
    wanted = sum((row.at - before.at) * row.rate for each in series.values() for before, row in pairwise(each))
    assert whole == pytest.approx(wanted)


BURSTS = st.lists(
    st.tuples(st.integers(1, 100), st.floats(0.0, 12.0), st.floats(75.0, 200.0)),
    min_size=1,
    max_size=3,
)
"""How many mutations, in how many seconds, and how long nothing is asked for after them."""


def due_times(bursts: list[tuple[int, float, float]]) -> list[tuple[float, float]]:
    """The times of mutations, after a time without any."""
    due: list[tuple[float, float]] = []
    begin = 100.0
    for count, seconds, quiet in bursts:
        due += [(begin + (number + 0.5) * seconds / count, 1.0) for number in range(count)]
        begin += seconds + quiet
    return due


def asked(gauge: dict[float, float], random: Random) -> tuple[numpy.ndarray, numpy.ndarray]:
    """What was asked for until each time, if samples have a time that is not quite that of the measurement."""
    times = sorted(gauge)
    at = numpy.array([round((time + random.uniform(0.0, 0.02)) * 1e6) for time in times])
    rates = asked_rates(at, numpy.array([gauge[time] for time in times]))
    return numpy.array(times), numpy.cumsum(rates * numpy.diff(at / 1e6, prepend=at[0] / 1e6))


@pytest.mark.parametrize("step", [1.0, 2.0, 5.0])
@given(bursts=BURSTS, seed=st.integers(0, 10))
def test_bursts_are_found_where_they_were(step: float, bursts: list[tuple[int, float, float]], seed: int) -> None:
    due = due_times(bursts)
    gauge = recorded_rates(due, due[-1][0] + 100.0, step, mutation_rate())
    times, until = asked(gauge, Random(seed))
    sent = numpy.array([at for at, _ in due])
    most = max(count for count, *_ in bursts)
    # What was asked for until a step before, and what was until a step after.
    earlier = numpy.searchsorted(sent, times - step, side="right")
    later = numpy.searchsorted(sent, times + step, side="right")
    error = 1.0 + 0.05 * most * len(bursts)
    assert (until >= earlier - error).all()
    assert (until <= later + error).all()


def test_a_burst_is_found_while_an_earlier_one_still_counts() -> None:
    """While the window of the first one was forgotten, a part of the second one was lost."""
    due = due_times([(50, 10.0, 50.0), (50, 10.0, 50.0), (50, 10.0, 50.0)])
    times, until = asked(recorded_rates(due, due[-1][0] + 100.0, 1.0, mutation_rate()), Random(1))
    for number in range(3):
        reached = until[numpy.searchsorted(times, 100.0 + 60.0 * number + 15.0)]
        assert reached == pytest.approx(50 * (number + 1), rel=0.05)


@pytest.mark.parametrize("step", [1.0, 5.0, 10.0])
@pytest.mark.parametrize("rate", [0.2, 3.0])
def test_steady_demand_is_about_as_much(step: float, rate: float) -> None:
    due = [(100.0 + number / rate, 1.0) for number in range(int(300 * rate))]
    _, until = asked(recorded_rates(due, 500.0, step, mutation_rate()), Random(1))
    assert until[-1] == pytest.approx(len(due), rel=0.2)


def test_a_short_recording_is_left_as_it_is() -> None:
    rates = numpy.array([1.0, 2.0, 3.0])
    assert asked_rates(numpy.array([1, 2, 3]) * 1_000_000, rates) is rates


def test_what_a_broker_refuses_is_predicted_from_bursts() -> None:
    """A burst of 80 looked like two mutations per second, which a limit of two lets pass."""
    due = [(100.0 + number / 10, 1.0) for number in range(80)]
    found = replayed(recorded_rates(due, 220.0, 1.0, mutation_rate()), 2.0, CONTROLLER_MUTATION_RATE)
    low, waited, high = (found.waits[variant].waited.sum() for variant in ("_low", "", "_high"))
    # 22 at once and 2 per second: overdrawn from 22 / (10 - 2) s on until (80 - 22) / 2 s.
    assert waited == pytest.approx(29.0 - 2.75, abs=2.0)
    assert low <= waited <= high
