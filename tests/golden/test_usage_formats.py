r"""What is read of recordings in each format, or said of what cannot be read, and what is proposed for a value.

A case begins with `===` and what it shows, and ends with what becomes of it, in lines with `=>`. A text whose last line
is `\` ends without a line end. `make golden` writes what is read now.

`right-size.txt`, in the form of `table`, has what differs from a user alice with 10 MiB/s, who used 2 MiB/s of broker 1
on the busiest Monday of 40 days, all of which are recorded. `quota-edit.txt` has proposals as changes of quota files:
`@` begins a file, the proposals and what the cluster holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import asdict

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import parse_address
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.scope import Pattern, Scope, Selection
from quotaform.model.units import UNLIMITED, parse_value, render_value
from quotaform.repository.repository import Repository
from quotaform.usage.format import FORMATS, parse
from quotaform.usage.format.table import TableMapping, guess_mapping, read_row
from quotaform.usage.format.text import TimeUnit, as_items
from quotaform.usage.ingest.rows import merged_batches, parsed_batches
from quotaform.usage.ingest.run import read_usage_mapping
from quotaform.usage.metric import Measure, read_metric, read_object_name
from quotaform.usage.metric_name import LABELS, Origin, fold
from quotaform.usage.recommend.demand import BucketDemand, BusiestDay, hour_of
from quotaform.usage.recommend.quota_edit import edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Advice, Recommendation, RecommendSettings
from quotaform.usage.recommend.right_size import recommend
from quotaform.usage.record.recording import explain_no_rows, read_rows
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Sample, Series
from tests.builder import MIB, PRODUCER
from tests.golden.conftest import FOLDER, Golden
from tests.golden.table import Text, check_told

ORIGIN: Final = Origin("prod", "1")
TS: Final = 1763676256.0
"""When what has no times was recorded."""


def of_series(series: Series) -> str:
    """A series on one line: `key attribute {names} cluster/broker`."""
    names = {name: value for name, value in series._asdict().items() if value is not None}
    where = f"{names.pop('cluster', '-')}/{names.pop('broker', '-')}"
    key, attribute = names.pop("key"), names.pop("attribute").value
    return f"{key} {attribute} {json.dumps(names, ensure_ascii=False)} {where}"


def of_items(items: Iterable[Item]) -> Iterator[str]:
    """What was read, a line for each item."""
    for item in items:
        if isinstance(item, Sample):
            yield f"{of_series(item.series)} at {item.ts:.3f}: {item.value!r} over {item.window_s:g} s"
        elif isinstance(item, Dropped):
            yield f"{item.samples} left out: {item.reason.value}"
        else:
            yield f"at {item.position}: {item.reason}"


def of_metric(case: str) -> Iterator[str]:
    """What a name means: of a metric with its labels, or of an MBean with its attribute."""
    name, more, *others = json.loads(case)
    given = dict(others[0]) if others else {}
    labels = {kind: tuple(map(fold, names)) for kind, names in given.pop("labels", {}).items()}
    origin = replace(ORIGIN, **given, labels={**LABELS, **labels})
    read = read_object_name if isinstance(more, str) else read_metric
    found: Measure | DropReason | str = read(name, more, origin)
    if isinstance(found, Measure):
        yield f"{of_series(found.series)} x {found.factor:g} over {found.window_s:g} s"
    else:
        yield f"left out: {found.value}" if isinstance(found, DropReason) else found


def of_table(case: str) -> Iterator[str]:
    """What a row of a table says, or what the columns of a table are taken for."""
    given = json.loads(case)
    if "columns" in given:
        mapping = guess_mapping(given["columns"])
        yield (
            mapping if isinstance(mapping, str) else json.dumps({"columns": mapping.columns, "labels": mapping.labels})
        )
        return
    fields = given["mapping"]
    if "time_unit" in fields:
        fields["time_unit"] = TimeUnit(fields["time_unit"])
    found = read_row(given["row"], TableMapping(**fields), replace(ORIGIN, **given.get("origin", {})))
    yield from of_items(as_items((1, "row 1", each, given["row"]) for each in found))


def of_recording(name: str) -> Callable[[str], Iterator[str]]:
    """Return what reads a recording in a format."""

    def read(case: str) -> Iterator[str]:
        return of_items(
            parse(name, case.removesuffix("\\\n").removesuffix("\n") if case.endswith("\\\n") else case, ORIGIN, TS)
        )

    return read


def of_mapping(case: str) -> Iterator[str]:
    """What a mapping file says, or what is wrong with it."""
    try:
        mapping = read_usage_mapping(SourceFile("m.yaml", case))
        yield json.dumps({name: value for name, value in asdict(mapping).items() if value})
    except InvalidFilesError as error:
        yield from map(str, error.problems)


def of_failure(case: str) -> Iterator[str]:
    """What is said of an error that ended a stream."""
    from quotaform.usage.stream import stream_failure

    error = stream_failure("ck", "usage", case.removesuffix("\n"))
    yield f"{type(error).__name__}: {error}"


def of_merge(case: str) -> Iterator[str]:
    """The rows of samples of one bucket, each given as its attribute, time and value."""
    samples = []
    for line in case.splitlines():
        attribute, ts, value = line.split()
        series = Series("prod", "1", "producer_byte_rate", "a", None, None, attribute=Attribute(attribute))
        samples.append(Sample(series, float(ts), float(value), 0.0 if series.attribute is Attribute.TOTAL else 11.5))
    for row in (
        row
        for batch in merged_batches(parsed_batches((("f", None), each) for each in samples))
        for row in batch.to_pylist()
    ):
        if row["dropped"] is None:
            where = f"at {row['ts'].timestamp():g} over {row['window_s']:g} s"
            yield f"{where}: rate {row['rate']}, throttle time {row['throttle_ms']}"
        else:
            yield from of_items([Dropped(DropReason[row["dropped"]], row["samples"])])


def of_silent(case: str) -> Iterator[str]:
    """Why a page of an exporter gives no rows, or which it gives."""
    read = read_rows(parse("exposition", case.encode(), ORIGIN, TS))
    yield (
        explain_no_rows(read)
        or f"it gives rows, and leaves out {[(each.name, count) for each, count in read.dropped.items()]}"
    )
    for row in read.rows:
        yield json.dumps({name: value for name, value in row._asdict().items() if value is not None})


READERS: Final = {
    **{name: of_recording(name) for name in FORMATS},
    "metric": of_metric,
    "table": of_table,
    "mapping": of_mapping,
    "merge": of_merge,
    "silent": of_silent,
    "stream-failure": of_failure,
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_read_of_a_recording(name: str, golden: Golden) -> None:
    head, *cases = (FOLDER / f"usage-{name}.txt").read_text(encoding="utf-8").split("===")
    found = head
    for case in cases:
        title, _, rest = case.partition("\n")
        text = rest.partition("\n=> ")[0] + "\n"
        found += f"==={title}\n{text}" + "".join(f"=> {line}\n" for line in READERS[name](text)) + "\n"
    golden(f"usage-{name}.txt", found.rstrip("\n") + "\n")


LAST: Final = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
MONDAYS: Final = {"day": "2026-11-02", "is_weekly": True, "weekday_days": 5}


def busiest_of(basis: float, given: dict[str, Any]) -> BusiestDay:
    """The busiest day; its days are texts."""
    days = {name: date.fromisoformat(given[name]) for name in ("day", "outlier_day") if name in given}
    fields: dict[str, Any] = given | days
    return BusiestDay(basis=basis, **fields)


def bucket_of(given: dict[str, Any], recent: dict[str, int]) -> list[BucketDemand]:
    """A bucket on its brokers; times are in days before the end of the recording.

    `recent`: how many hours of the last 30 days are recorded on brokers, those at the end; all of them on others.
    """
    days, used = given.get("days", 40), given.get("used_days_ago", 0)
    first = LAST - timedelta(days=days)
    slots = hour_of(LAST) - hour_of(first) + 1
    found = []
    for name, basis in given.get("brokers", {"1": 2 * MIB}).items():
        hours = (1 << given.get("hours", slots)) - 1
        if (begin := slots - recent.get(name, slots)) > (end := max(0, slots - 720)):
            hours &= ~((1 << begin) - (1 << end))
        found.append(
            BucketDemand(
                bucket=given.get("bucket", "user=alice"),
                key=given.get("key", PRODUCER),
                broker=name or None,
                entity_key=given.get("entity", "user=alice"),
                limit=given.get("limit", 10 * MIB),
                busiest=None if basis is None else busiest_of(basis, given.get("day", MONDAYS)),
                samples=given.get("samples", 1000),
                throttled=given.get("throttled", 0),
                first=first,
                begin=first - timedelta(seconds=given.get("window", 0)),
                last=LAST,
                last_used=None if used is None else LAST - timedelta(days=used),
                hours=hours,
                is_coarse=given.get("is_coarse", False),
            )
        )
    return found


def idle(key: str, recorded: dict[str, list[float]]) -> list[BucketDemand]:
    """A bucket without a rate, of which brokers were recorded for so many days, and recent hours."""
    place = {"bucket": "user=idle", "key": key, "entity": None, "limit": None, "samples": 0, "used_days_ago": None}
    return [
        row
        for name, (days, hours) in recorded.items()
        for row in bucket_of({**place, "days": days, "brokers": {name: None}}, {name: int(hours)})
    ]


def settings_of(given: dict[str, Any]) -> RecommendSettings:
    """How values are sized."""
    fields = dict(given)
    if "capacity" in fields:
        fields["capacities"] = {"prod": {PRODUCER: fields.pop("capacity")}}
    if "select" in fields:
        fields["selection"] = Selection(select=tuple(fields.pop("select")))
    if "scope" in fields:
        fields["scope"] = Scope(include=(Pattern(tuple(fields.pop("scope").items())),))
    return RecommendSettings(**fields)


def of_recorded(text: Text) -> Iterator[str]:
    """Yield what is proposed in a case, a line for each value and what it follows from."""
    given = json.loads(text)
    key = given.get("key", PRODUCER)
    recorded = given.get("recorded", {})
    recent = {name: int(hours) for name, (_, hours) in recorded.items()}
    buckets = [row for each in given.get("buckets", [{}]) for row in bucket_of({"key": key, **each}, recent)]
    for other, each in {key: recorded, **given.get("others", {})}.items():
        buckets += idle(other, each)
    own = {
        parse_address(address): {key: parse_value(QUOTA_KEYS[key], value) if value == UNLIMITED else float(value)}
        for address, value in given.get("values", {"user=alice": 10 * MIB}).items()
    }
    found = recommend(
        "prod",
        own,
        buckets,
        settings_of(given.get("settings", {})),
        LAST + timedelta(days=given.get("age_days", 0.375)),
        given.get("broker_count"),
    )
    for each in found:
        values = ["-" if value is None else render_value(QUOTA_KEYS[key], value) for value in (each.before, each.after)]
        yield f"{each.action.value} {each.entity.address} {values[0]} -> {values[1]}: {each.reason}"
        rest: dict[str, Any] = {
            "note": each.note,
            "bucket": each.bucket,
            "broker": each.broker,
            "day": each.day and str(each.day),
        }
        rest |= {"days": round(each.days, 3), "basis": each.basis, "samples": each.samples, "weekly": each.is_weekly}
        yield "  " + json.dumps({name: value for name, value in rest.items() if value})


def test_what_is_proposed_for_a_value(golden: Golden) -> None:
    check_told(golden, "right-size.txt", of_recorded)


DAY: Final = date(2026, 11, 22)
REASONS: Final = {True: "not used for 30 days", False: "p99 of 14 days 8.2 MiB/s x 1.5"}


def proposal(line: str) -> Recommendation:
    """A proposal, written as `cluster address key before -> after`."""
    place, _, after = line.rpartition(" -> ")
    cluster, rest = place.split(" ", 1)
    address, key, before = rest.rsplit(" ", 2)
    values = [None if value == "-" else float(value) for value in (before, after)]
    action = Advice.DELETE if values[1] is None else Advice.CREATE if values[0] is None else Advice.UPDATE
    return Recommendation(
        cluster=cluster,
        entity=parse_address(address),
        key=key,
        action=action,
        before=values[0],
        after=values[1],
        reason=REASONS[values[1] is None],
    )


def edited(case: str, folder: Path) -> str:
    """What becomes of the files of a case: those that change, and what they don't follow."""
    parts = {name: text for name, _, text in (part.partition("\n") for part in case.split("@ ")[1:])}
    proposals = [proposal(line) for line in parts.pop("proposals").splitlines()]
    held: dict[str, float] = {}
    for line in parts.pop("held", "").splitlines():
        key, value = line.split()
        held[key] = float(value)
    live = {name: {each.entity: held for each in proposals} for name in {each.cluster for each in proposals}}
    (folder / "quotas.d").mkdir(parents=True)
    for name, text in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    repository = Repository.at(folder / "quotas.d", None)
    found = edit_quotas(repository, repository.config(), proposals, live, DAY)
    write_quotas(found)
    lines = []
    for file in found.files:
        lines += [f"@ {file.path.relative_to(folder)}", *file.path.read_text(encoding="utf-8").splitlines()]
    for left in found.unwritten:
        reason = left.reason.replace(f"{folder}/", "")
        lines.append(f"! {left.cluster} {left.address} {left.key}: {reason}")
    return "".join(f"=> {line}".rstrip() + "\n" for line in lines)


def test_files_follow_proposals_and_nothing_else_changes(golden: Golden, tmp_path: Path) -> None:
    head, *cases = (FOLDER / "quota-edit.txt").read_text(encoding="utf-8").split("===")
    found = head
    for number, case in enumerate(cases):
        given = case.partition("\n=>")[0] + "\n"
        found += f"==={given}{edited(given, tmp_path / str(number))}\n"
    golden("quota-edit.txt", found.rstrip("\n") + "\n")
