"""Recordings of one file, read in parts: formats are found out, and broken files keep what can be read of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from quotaform.model.errors import FileReadError
from quotaform.usage.format import FORMATS
from quotaform.usage.format.text import detect_format
from quotaform.usage.ingest.document import add_recording
from quotaform.usage.ingest.rows import ParsedRows
from quotaform.usage.ingest.source import Range
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Rejected, Sample
from tests.unit.usage.recorded import DATA

ORIGIN = Origin("prod", "1")
TS = 1_795_000_000.0
ELEMENT = {
    "metric": {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": "a"},
    "values": [[TS, "1"], [TS + 60, "2"]],
}
PUSHES = "".join(
    json.dumps(
        {
            "resourceMetrics": [
                {
                    "scopeMetrics": [
                        {
                            "metrics": [
                                {
                                    "name": "kafka_server_Produce_byte_rate",
                                    "gauge": {
                                        "dataPoints": [
                                            {
                                                "asDouble": number,
                                                "timeUnixNano": str((int(TS) + number) * 10**9),
                                                "attributes": [{"key": "user", "value": {"stringValue": "a"}}],
                                            }
                                        ]
                                    },
                                }
                            ]
                        }
                    ]
                }
            ]
        }
    )
    + "\n"
    for number in range(50)
)


def rows_of(data: bytes, cuts: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    """Return what is read of a recording in ranges that begin at some bytes."""
    rows = ParsedRows()
    for start, end in zip(cuts, (*cuts[1:], None), strict=True):
        list(add_recording(Range("f", start, end, TS, data), None, ORIGIN, rows))
    return [row for batch in rows.rest() for row in batch.to_pylist()]


def samples_in(rows: list[dict[str, Any]]) -> int:
    return sum(row["samples"] for row in rows if row["ts"])


def reasons_in(rows: list[dict[str, Any]]) -> list[str]:
    return [row["reason"] for row in rows if row["reason"]]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("jmxtool", (DATA / "jmxtool.csv").read_bytes()),
        ("exposition", (DATA / "exposition.txt").read_bytes()),
        ("otlp", PUSHES.encode()),
        ("prometheus", json.dumps({"status": "success", "data": {"result": [ELEMENT]}}).encode()),
        ("prometheus", json.dumps(ELEMENT).encode()),
    ],
)
def test_a_recording_is_read_as_its_parser_reads_it(kind: str, data: bytes, pack: Callable[[bytes], bytes]) -> None:
    assert detect_format(data) == kind
    items = list(FORMATS[kind](data, ORIGIN, TS))
    rows = rows_of(pack(data))
    assert samples_in(rows) == sum(isinstance(item, Sample) for item in items) > 0
    assert len(reasons_in(rows)) == sum(isinstance(item, Rejected) for item in items)


def test_lines_are_in_the_range_in_which_they_begin() -> None:
    cuts = (0, 10, len(PUSHES) // 3, len(PUSHES) - 2)
    assert samples_in(rows_of(PUSHES.encode(), cuts)) == samples_in(rows_of(PUSHES.encode())) == 50


PAGE = "".join(
    f'{{__name__="kafka_server_produce_byte_rate", user="u{number}"}} {number} {int(TS) * 1000 + number}\n'
    for number in range(50)
)


JMXTOOL = '"time","kafka.server:type=Produce,user=a:byte-rate"\n1795000000000,1\n1795000060000,u20\n1795000120000,3\n'


def test_lines_of_values_are_shared_by_ranges() -> None:
    """What promtool dumps was of no format that is known, and a page had a limit of 64 MiB."""
    text = PAGE
    assert detect_format(text.encode()) == "exposition"
    broken = text.replace("u20", "u20 \n", 1)
    cuts = (0, 10, len(text) // 3, len(text) - 2)
    assert samples_in(rows_of(text.encode(), cuts)) == samples_in(rows_of(text.encode())) == 50
    (whole, rest), (at, _) = reasons_in(rows_of(broken.encode())), reasons_in(rows_of(broken.encode(), cuts))
    assert whole.startswith("line 21: ")
    assert rest.startswith("line 22: ")
    assert at.startswith(
        f"line at byte {broken.index('u20 ') - len(broken[: broken.index('u20 ')].rpartition(chr(10))[2])}: "
    )


def test_the_last_line_of_a_file_that_was_cut_is_not_taken_for_a_value() -> None:
    """A time that was cut was one of 1970."""
    rows = rows_of(PAGE[:-6].encode())
    assert samples_in(rows) == 49
    assert reasons_in(rows) == ["line 50: the file ends here, the value or the time may be cut"]
    assert samples_in(rows_of(PAGE.splitlines()[0].encode())) == 1


def test_a_file_that_has_no_parts_is_read_by_its_first_range() -> None:
    data = (DATA / "jmxtool.csv").read_bytes()
    assert samples_in(rows_of(data, (0, 500, 1500))) == samples_in(rows_of(data))


def test_what_was_read_of_a_cut_gzip_file_is_kept() -> None:
    packed = gzip.compress((DATA / "jmxtool.csv").read_bytes() * 20)
    rows = rows_of(packed[:-40])
    assert samples_in(rows) > 0
    assert any("the file is cut or broken" in reason for reason in reasons_in(rows))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0", "the file is of no format that is known"),
        (b"PAR1\0\0", "the file is a table; give --input-format table"),
        (b"ts,key,rate\n1,Produce,2\n", "the file is a table; give --input-format table"),
        (b'{"status":"error","error":"timed out"}', "Prometheus answered with an error"),
        (b'{"metric":{"__name__":"x"},"values":[[1', "not JSON, or cut"),
        (b"<!DOCTYPE html><html>", "or write its values into a table (docs/usage-recordings.md#tables)"),
        (b'{"results":{"A":{"frames":[{"schema":{"fields":[]}}]}}}', "the file is of no format that is known"),
        (
            b'[{"request":{"mbean":"kafka.server:type=Produce,*"},"value":{},"status":200}]',
            "a recording of Jolokia or Telegraf, which is not read any more; ingest what",
        ),
        (b'{"fields":{"byte-rate":1.5},"name":"kafka_client","tags":{}}', "a recording of Jolokia or Telegraf"),
        (
            b"# x\nkafka_client,client-id=x,type=Fetch byte-rate=1,tokens=2i 1795000000000\n",
            "a recording of Jolokia or Tele",
        ),
        (b"[" + b'"fields":' * 7000, "the file is of no format that is known"),
    ],
)
def test_a_file_of_another_kind_is_one_record(data: bytes, reason: str) -> None:
    (found,) = reasons_in(rows_of(data))
    assert reason in found


@pytest.mark.parametrize(
    "more",
    [{"warnings": ["store x is down"]}, {"isPartial": True}, {"status": "error", "error": "timed out"}],
)
@pytest.mark.parametrize("series", [0, 1, 3])
def test_what_stands_around_the_series_is_read_as_its_parser_reads_it(more: dict[str, Any], series: int) -> None:
    """Only the series themselves were looked at."""
    data = {"resultType": "matrix", "result": [ELEMENT] * series}
    answer = json.dumps({"status": "success", "isPartial": False, "data": data, **more}).encode()
    defined = [item.reason for item in FORMATS["prometheus"](answer, ORIGIN) if isinstance(item, Rejected)]
    rows = rows_of(answer)
    assert samples_in(rows) == 2 * series
    (reason,) = reasons_in(rows)
    assert [text.removeprefix("line 1: ") for text in defined] == [reason.partition(": ")[2] if series else reason[8:]]
    half = (0, len(answer) // 2)
    assert sorted(reasons_in(rows_of(answer, half))) == sorted(reasons_in(rows))


def test_what_stands_behind_an_answer_is_not_lost_in_silence() -> None:
    """It was left out without a trace."""
    answer = json.dumps({"status": "success", "data": {"result": [ELEMENT]}}).encode()
    (reason,) = reasons_in(rows_of(answer + b"garbage"))
    assert 'what stands behind the end of the answer is not read: "garbage"' in reason
    partial = json.dumps({"isPartial": True, "data": {"result": [ELEMENT]}}).encode()
    (reason,) = reasons_in(rows_of(partial + b"\n" + answer))
    assert "the answer is partial" in reason
    assert samples_in(rows_of(partial + b"\n" + answer)) == 4


@pytest.mark.parametrize(
    ("data", "parser", "samples", "reasons"),
    [
        (PAGE, "quotaform.usage.format.prometheus._item", 49, ["line 21: "]),
        (PAGE[:-1], "quotaform.usage.format.prometheus._item", 48, ["line 21: ", "line 50: "]),
        (JMXTOOL, "quotaform.usage.format.jmxtool._row", 1, ["line at byte 68, from which on nothing is read: "]),
        (
            json.dumps([ELEMENT, json.loads(json.dumps(ELEMENT).replace('"a"', '"u20"'))]),
            "quotaform.usage.ingest.document.read_metric",
            2,
            ["series at byte "],
        ),
    ],
)
def test_a_bug_at_one_record_loses_no_other_record(
    data: str, parser: str, samples: int, reasons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of 4 MiB was gone, which was reported as one record at position 0; a table and series ended the task."""
    module, _, name = parser.rpartition(".")
    real = getattr(import_module(module), name)

    def fails(*arguments: Any, **options: Any) -> Any:
        if "u20" in str(arguments):
            raise KeyError
        return real(*arguments, **options)

    monkeypatch.setattr(parser, fails)
    rows = rows_of(data.encode())
    assert samples_in(rows) == samples
    found = reasons_in(rows)
    assert [reason[: len(begin)] for reason, begin in zip(found, reasons, strict=True)] == reasons
    assert "internal error: KeyError; please report it with the file" in found[0]


def test_a_lack_of_memory_is_no_bad_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for a bug in a record."""
    monkeypatch.setitem(FORMATS, "exposition", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        rows_of(PAGE.encode())


def test_an_empty_file_holds_nothing() -> None:
    assert reasons_in(rows_of(b"")) == []


def test_a_file_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    source = Range("in/a.json", 0, None, TS, None, str(tmp_path / "a.json"))
    with pytest.raises(FileReadError, match=r"in/a\.json cannot be read: No such file"):
        list(add_recording(source, None, ORIGIN, ParsedRows()))
