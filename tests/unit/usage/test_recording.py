"""Recordings: formats are found out, broken files keep what can be read of them, and nothing ends the others."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from quotaform.model.errors import FileReadError
from quotaform.usage.format import FORMATS, parse, text
from quotaform.usage.format.text import detect_format
from quotaform.usage.ingest.rows import RawRecording, items_of, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Dropped, Item
from tests.usage_documents import WRITERS, Recorded

from .recorded import DATA, ORIGIN, reasons, samples, series

TS = 1_795_000_000
RECORDED = [Recorded(series(user=user), TS + step, 1.5) for user in ("a", "b") for step in (0, 60)]
ANSWER = WRITERS["prometheus"](RECORDED)
PAGE = 'kafka_server_produce_byte_rate{user="a"} 5\nkafka_server_produce_byte_rate{user="b"} 6 1795000000123'


def read(data: bytes | None, name: str | None = None, origin: Origin = ORIGIN, offset: int | None = None) -> list[Item]:
    return list(items_of(RawRecording("f", float(TS), None, data, offset), name, origin))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("jmxtool", (DATA / "jmxtool.csv").read_bytes()),
        ("exposition", (DATA / "exposition.txt").read_bytes()),
        *((name, write(RECORDED)) for name, write in WRITERS.items()),
        ("prometheus", json.dumps(json.loads(ANSWER), indent=2).encode()),
        ("prometheus", ANSWER + b"\n" + ANSWER + b"\n"),
        ("prometheus", json.dumps(json.loads(ANSWER)["data"]["result"][0]).encode()),
    ],
)
def test_a_recording_is_read_as_its_parser_reads_it(kind: str, data: bytes, pack: Callable[[bytes], bytes]) -> None:
    assert detect_format(data) == kind
    items = list(parse(kind, data, ORIGIN, TS))
    assert read(pack(data)) == items
    assert samples(items)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0", "the file is of no format of recordings"),
        (b"PAR1\0\0", "name it with --input-format if it is one of these or a table"),
        (b"ts,key,rate\n1,Produce,2\n", "name it with --input-format if it is one of these or a table"),
        (b'{"metric":{"__name__":"x"},"values":[[1', "line 1: not JSON, or cut: it ends too early"),
        (b"<!DOCTYPE html><html>", "or write its values into a table (docs/usage-recordings.md#tables)"),
        (b'{"results":{"A":{"frames":[{"schema":{"fields":[]}}]}}}', "the file is of no format of recordings"),
        (b"[" + b'"fields":' * 7000, "the file is of no format of recordings"),
    ],
)
def test_a_file_of_another_kind_is_one_record(data: bytes, reason: str) -> None:
    [found] = reasons(read(data))
    assert reason in found


def test_the_last_line_of_a_file_that_was_cut_is_not_taken_for_a_value() -> None:
    """A time that was cut was one of 1970."""
    items = read(PAGE.encode())
    assert [item.series.user for item in samples(items)] == ["a"]
    assert reasons(items) == ["line 2: the file ends here, the value or the time may be cut"]
    # A line alone is whole, and so is a record of a topic.
    assert len(samples(read(PAGE.splitlines()[0].encode()))) == 1
    assert len(samples(read(PAGE.encode(), "exposition", offset=7))) == 2


def test_what_was_read_of_a_cut_gzip_file_is_kept() -> None:
    """The numbers of samples that are left out were lost."""
    items = read(gzip.compress((DATA / "jmxtool.csv").read_bytes() * 20)[:-40])
    assert samples(items)
    assert [item for item in items if isinstance(item, Dropped)]
    assert "the file is cut or broken, and read up to there: it ends too early" in reasons(items)


def test_a_document_that_would_not_fit_into_memory_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LONGEST", 1 << 20)
    pages = [json.dumps(json.loads(ANSWER)["data"]["result"][0]).encode(), b"[" + b" " * (1 << 20) + b"]"]
    items = read(b"\n".join(pages))
    assert reasons(items) == ["line 2: the document is larger than 1 MiB; query shorter ranges of time"]
    assert len(samples(items)) == 2
    assert reasons(read(b"[\n" + ANSWER * 3000))[0].startswith("line 1: the document is larger than")


def test_samples_without_a_cluster_are_one_record_with_the_remedy() -> None:
    """Of a topic, all of a partition were one row of the quarantine, at position 0."""
    items = read(ANSWER, origin=Origin(None, "1"))
    why = "4 samples: no label of the metrics names the cluster; give --cluster NAME, or the label with --cluster-label"
    assert rejected((None, items)) == [(0, why)]
    assert rejected((7, items), (8, items)) == [(7, f"offset 7: {why}"), (8, f"offset 8: {why}")]


def test_records_of_a_topic_without_a_cluster_do_not_make_one_large_batch() -> None:
    """A topic whose samples name no cluster made one batch of all that a task read, however many records that was."""
    items = read(ANSWER, origin=Origin(None, "1"))
    batches = parsed_batches((("f", offset), item) for offset in range(10_005) for item in items)
    assert [batch.num_rows for batch in batches] == [10_000, 5]


def rejected(*found: tuple[int | None, list[Item]]) -> list[tuple[int, str]]:
    """Position and reason of what is rejected of a file, or of records of a topic by their offset."""
    [batch] = parsed_batches((("f", offset), item) for offset, items in found for item in items)
    return [(row["position"], row["reason"]) for row in batch.to_pylist()]


def test_what_cannot_be_read_of_a_topic_is_named_by_its_offset() -> None:
    empty, cut = read(None, "otlp", offset=7), read(b"{", "exposition", offset=8)
    assert rejected((7, empty), (8, cut)) == [
        (7, "offset 7: the record has no value"),
        (8, "offset 8: line 1: not a metric with a value, or cut"),
    ]


def test_a_bug_of_a_parser_ends_nothing_else_and_a_lack_of_memory_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream met the same record each time that it began again; memory was taken for a bug in a record."""
    monkeypatch.setitem(FORMATS, "exposition", Mock(side_effect=KeyError("secret")))
    [found] = reasons(read(PAGE.encode()))
    assert found.startswith("internal error: KeyError, from which on nothing is read; please report it")
    monkeypatch.setitem(FORMATS, "exposition", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        read(PAGE.encode())


def test_names_that_utf_8_cannot_hold_are_escaped() -> None:
    value = b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "\\ud800"}]}]}], "\\ud800": "'
    assert [position for position, _ in rejected((None, read(value, "otlp")))] == [1]


def test_an_empty_file_holds_nothing() -> None:
    assert read(b"") == []


def test_a_file_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileReadError, match=r"in/a\.json cannot be read: No such file"):
        list(items_of(RawRecording("in/a.json", TS, str(tmp_path / "a.json")), None, ORIGIN))
