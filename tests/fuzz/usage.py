"""Fuzzed: recordings of usage, which are never refused as a whole: what cannot be read is counted, in words."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from json import loads
from math import isfinite
from typing import Final

from quotaform.desired.tree import SourceFile
from quotaform.model.errors import InvalidFilesError
from quotaform.usage.format import FORMATS, parse
from quotaform.usage.format.table import TableMapping, read_row
from quotaform.usage.format.text import TimeUnit, as_items
from quotaform.usage.ingest.rows import RawRecording, items_of, merged_batches, parsed_batches
from quotaform.usage.ingest.run import read_usage_mapping
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import LONGEST_RECORD, Dropped, Item, Rejected
from tests.fuzz.target import Target, line_problems

_TS: Final = 1_763_676_256
_ORIGIN: Final = Origin("prod", "1")

_TABLES: Final = (
    TableMapping(
        columns={"ts": "time", "rate": "bytes", "user": "u", "window_s": "w"}, constants={"key": "Fetch"},
        factors={"rate": 1024.0}, time_unit=TimeUnit.MS,
    ),
    TableMapping(columns={"ts": "time", "metric": "m", "value": "bytes", "labels": "l"}, labels={"user": "u"}),
)  # fmt: skip


def _read_rows(document: bytes) -> None:
    """Read rows of a table by each kind of mapping."""
    try:
        rows = loads(document)
    except (ValueError, RecursionError):
        return
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    for mapping in _TABLES:
        _check(as_items((1, "row 1", each, row) for row in rows for each in read_row(row, mapping, _ORIGIN)))


def _read_recording(document: bytes) -> None:
    """Read a file as a task does."""
    for name in (None, "prometheus"):
        items = list(items_of(RawRecording("f", float(_TS), None, document), name, _ORIGIN))
        assert not [item for item in items if isinstance(item, Rejected) and item.reason.startswith("internal")], items
        _check(items)
        for batch in merged_batches(parsed_batches((("f", None), item) for item in items)):
            assert all(isfinite(rate) for rate in batch.column("rate").to_pylist() if rate is not None), items


def _read(name: str, document: bytes) -> None:
    _check(parse(name, document, _ORIGIN, float(_TS)))


def _check(items: Iterable[Item]) -> None:
    for item in items:
        if isinstance(item, Rejected):
            assert not list(line_problems(item.reason)), item
            assert item.position >= 0, item
            assert len(item.record) <= LONGEST_RECORD, item
            item.record.encode()
        elif isinstance(item, Dropped):
            assert item.samples >= 0, item
        else:
            assert isfinite(item.value), item
            assert item.value >= 0, item
            assert item.ts > 0, item
            "".join(name for name in item.series if name).encode()


def _read_mapping(document: bytes) -> None:
    assert read_usage_mapping(SourceFile("mapping.yaml", document)).names


TARGETS: Final = (
    *(Target(f"usage-{name}", partial(_read, name), ()) for name in FORMATS),
    Target("usage-table", _read_rows, ()),
    Target("usage-recording", _read_recording, (), "fuzz/corpus/usage-*/[0-9]"),
    Target("usage-mapping", _read_mapping, (InvalidFilesError,), refused=(b"columns: {}",)),
)
