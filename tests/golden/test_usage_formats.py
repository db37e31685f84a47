"""What is read of recordings in each format, and what is said of what cannot be read: golden files with their inputs.

A case begins with `===` and what it shows, and ends with what becomes of it, in lines with `=>`. A text whose last line
is `\\` ends without a line end. `make golden` writes what is read now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from msgspec.structs import asdict

from quotaform.desired.tree import SourceFile
from quotaform.model.errors import InvalidFilesError
from quotaform.usage.format import FORMATS
from quotaform.usage.format.prometheus import parse_exposition
from quotaform.usage.format.table import TableMapping, TimeUnit, guess_mapping, parse_rows
from quotaform.usage.ingest.input import read_usage_mapping
from quotaform.usage.metric import Measure, read_metric, read_object_name
from quotaform.usage.metric_name import LABELS, Origin
from quotaform.usage.record.recording import explain_no_rows, read_rows
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Sample, Series, merge
from tests.golden.conftest import FOLDER, Golden

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
    labels = {kind: tuple(names) for kind, names in given.pop("labels", {}).items()}
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
    yield from of_items(parse_rows([given["row"]], TableMapping(**fields), replace(ORIGIN, **given.get("origin", {}))))


def of_recording(name: str) -> Callable[[str], Iterator[str]]:
    """Return what reads a recording in a format."""

    def read(case: str) -> Iterator[str]:
        return of_items(
            FORMATS[name](case.removesuffix("\\\n").removesuffix("\n") if case.endswith("\\\n") else case, ORIGIN, TS)
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
        series = Series("prod", "1", "producer_byte_rate", "a", None, None, Attribute(attribute))
        samples.append(Sample(series, float(ts), float(value), 0.0 if series.attribute is Attribute.TOTAL else 11.5))
    rows, dropped = merge(samples)
    for row in rows:
        yield f"at {row.ts:g} over {row.window_s:g} s: rate {row.rate}, throttle time {row.throttle_ms}"
    yield from of_items(Dropped(reason, count) for reason, count in dropped.items())


def of_silent(case: str) -> Iterator[str]:
    """Why a page of an exporter gives no rows, or which it gives."""
    read = read_rows(parse_exposition(case.encode(), ORIGIN, TS))
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
