"""What golden files of recordings cannot hold: bytes, sizes, depths, times of reading; and what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from pathlib import Path
from re import fullmatch
from urllib.parse import parse_qs, urlsplit

import pytest

from quotaform.desired.tree import SourceFile
from quotaform.model.errors import InvalidFilesError, MetricsError
from quotaform.model.settings import parse_source, require_distinct
from quotaform.usage import prometheus
from quotaform.usage.format import parse
from quotaform.usage.format.table import read_row
from quotaform.usage.format.text import detect_format
from quotaform.usage.ingest.run import read_usage_mapping
from quotaform.usage.metric import LONGEST_NAME, Measure, read_metric
from quotaform.usage.metric_name import Origin
from quotaform.usage.prometheus import QUERY, Prometheus, save_answers
from quotaform.usage.sample import Dropped, DropReason, Rejected, Sample
from tests.http_server import HttpServer, Received, answer

from .recorded import DATA, ORIGIN, TS, reasons, samples, series, values

NAME = "kafka_server_Produce_byte_rate"
LABELS = {"__name__": NAME, "user": "alice"}
SERIES = {"metric": LABELS, "values": [[TS, "1.5"], [TS + 60, "2"]]}


def test_a_byte_order_mark_is_no_part_of_a_recording() -> None:
    table = f'\ufeff"time","kafka.server:type=Produce,user=alice:byte-rate"\n{int(TS * 1000)},17\r\n'
    assert values(parse("jmxtool", table, ORIGIN)) == [(TS, 17.0)]
    assert len(values(parse("prometheus", "\ufeff" + dumps(SERIES), ORIGIN))) == 2


@pytest.mark.parametrize("line", ['time,"{}"', "time\t{}", "time={}"])
@pytest.mark.parametrize(
    "message", ["", "Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://b1:9999/jmxrmi\n"]
)
def test_every_report_of_jmxtool_is_known_by_its_first_lines(line: str, message: str) -> None:
    """Only the report that is made by default was known."""
    text = f"{message}{line.format(1795000000000)}\nkafka.server:type=Fetch:queue-size=0\n"
    assert detect_format(text.encode()) == "jmxtool"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[" * 100_000, "line 1: the document is nested too deeply"),
        (b"[1" + b"0" * 5000 + b"]", "series 1: not as the format has it: Number out of range"),
    ],
)
def test_a_broken_document_is_one_rejected_record(data: bytes, reason: str) -> None:
    assert reasons(parse("prometheus", data, ORIGIN)) == [reason]


def test_a_byte_that_is_not_utf8_spoils_one_series() -> None:
    other = {"metric": {**LABELS, "user": "BAD"}, "value": [TS, "1"]}
    items = list(parse("prometheus", dumps([other, SERIES]).encode().replace(b"BAD", b"\xff"), ORIGIN))
    assert reasons(items) == [
        "series 1: not as the format has it: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    ]
    assert len(values(items)) == 2
    assert all(item.record.encode() for item in items if isinstance(item, Rejected))


POINT = '{"asDouble": NESTED, "timeUnixNano": "1", "attributes": [{"key": "user", "value": {"stringValue": "a"}}]}'


@pytest.mark.parametrize("depth", [100, 900, *range(930, 1000, 5), 5000])
@pytest.mark.parametrize(
    ("name", "template"),
    [
        *((name, "NESTED") for name in ("prometheus", "otlp")),
        ("prometheus", f'[{{"metric": {dumps(LABELS)}, "values": [[1700000000, NESTED]]}}]'),
        ("prometheus", f'[{{"metric": {dumps(LABELS)}, "values": [[NESTED, 1]]}}]'),
        ("prometheus", '{"status": "error", "error": NESTED}'),
        ("otlp", '{"resourceMetrics": [NESTED]}'),
        (
            "otlp",
            f'{{"resourceMetrics": [{{"scopeMetrics": [{{"metrics": [{{"name": "{NAME}", '
            f'"gauge": {{"dataPoints": [{POINT}]}}}}]}}]}}]}}',
        ),
    ],
)
def test_a_document_that_is_nested_deeply_is_rejected(name: str, template: str, depth: int) -> None:
    """One that was nested almost as deeply as Python reads could be read, but not written again."""
    items = list(parse(name, template.replace("NESTED", "[" * depth + "]" * depth), ORIGIN, TS))
    assert items
    assert all(isinstance(item, Rejected) for item in items)


def test_names_that_are_too_long_or_no_text_are_neither_read_nor_lost() -> None:
    for user, reason in (("a" * (LONGEST_NAME + 1), "longer than 32,767 characters"), ("a\udcff", "not UTF-8")):
        measure = read_metric(NAME, {"user": user}, ORIGIN)
        assert isinstance(measure, str)
        assert reason in measure
    assert read_metric(f"kafka_server_Produce_user_{'a' * 100_000}_byte_rate", {}, ORIGIN) is DropReason.OTHER_METRIC
    measure = read_metric(NAME, {"user": "alice", "a" * 10_000: "b"}, ORIGIN)
    assert isinstance(measure, Measure)
    assert measure.series == series(user="alice")


def test_a_prometheus_is_asked_for_each_name_that_is_read_and_for_no_other() -> None:
    names = ["", "_quota", "_Produce", "_quota_byte_rate", "_quota_Produce_byte_rate:_1_5"]
    assert all(
        fullmatch(QUERY, name) for name in (*(f"kafka_server{name}" for name in names), "kafka_client_throttle_time")
    )
    others = ("kafka_server_brokertopicmetrics_bytesin_total", "kafka_servers", "kafka_server_request_queue_size")
    assert not any(fullmatch(QUERY, name) for name in others)


CLIENT_IDS = {
    *("x", "a:b", "a,b", 'q "x"', "*", "%2A", "<default>", "a=b", "back\\slash", "ü", "new\nline", ", client-id=z"),
    *("a, user=b", "tab\there", " lead", "{x}", "'", "?"),
}
"""Odd client-ids, of which there are metrics of a real broker: Kafka 4.3.1 by jmx_exporter 1.0.1 and JmxTool."""


@pytest.mark.parametrize(
    ("name", "has_user_alone"),
    [
        ("odd-names-labels.txt", True),
        ("odd-names-resource.txt", False),
        ("odd-names-type-in-name.txt", True),
        ("odd-names-no-rules.txt", True),
        ("odd-names.csv", True),
    ],
)
def test_all_client_ids_are_told_apart(name: str, has_user_alone: bool) -> None:
    """An empty client-id is none: the bucket is that of the user, for which kafka-2_0_0.yml has no rule."""
    items = list(parse("jmxtool" if name.endswith(".csv") else "exposition", (DATA / name).read_bytes(), ORIGIN, TS))
    expected = {*CLIENT_IDS, None} if has_user_alone else CLIENT_IDS
    assert {item.series.client_id for item in samples(items)} == expected
    assert {item.series.user for item in samples(items)} == {"tenant"}
    assert len(samples(items)) == len(expected)
    others = [item for item in items if not isinstance(item, Sample)]
    assert all(isinstance(item, Dropped) and item.reason is DropReason.NAN for item in others)


def test_names_within_the_name_of_a_metric_are_read_only_where_the_exporter_adds_the_mbean() -> None:
    items = list(parse("exposition", (DATA / "odd-names-swallowed.txt").read_bytes(), ORIGIN, TS))
    read = {item.series.client_id for item in samples(items)}
    assert read
    assert read < CLIENT_IDS
    assert len(read) + len(reasons(items)) == len(CLIENT_IDS) + 1
    assert all("put rules that keep labels before the catch-all rule" in reason for reason in reasons(items))


def test_an_invalid_mapping_is_an_error_with_all_problems() -> None:
    with pytest.raises(InvalidFilesError) as caught:
        read_usage_mapping(SourceFile("m.yaml", b"columns: {ts: 7, rate: 8}"))
    assert len(caught.value.problems) == 2
    # A row of the table could not be multiplied by a factor with decimals.
    text = b"{columns: {ts: time, rate: bytes, user: u}, constants: {key: Produce}, factors: {rate: 0.125}}"
    row = {"time": 1.8e12, "bytes": 8, "u": "a"}
    assert values(read_row(row, read_usage_mapping(SourceFile("m.yaml", text)), ORIGIN)) == [(1.8e9, 1.0)]


def test_two_sources_of_one_broker_would_count_twice() -> None:
    with pytest.raises(ValueError, match='two sources of broker "1"'):
        require_distinct([parse_source("1=http://a/x"), parse_source("2=http://a/x"), parse_source("1=jmx:a:1")])


START = 1_795_000_020
RATE_LABELS = {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": "alice", "cluster": "lab"}


def asked(request: Received) -> dict[str, float]:
    """Return the times of a range query."""
    fields = parse_qs(urlsplit(request.target).query)
    return {name: float(fields[name][0]) for name in ("start", "end", "step")}


def recorded(request: Received) -> bytes:
    """Answer as a Prometheus that has a value at each point."""
    times = asked(request)
    count = int((times["end"] - times["start"]) // times["step"]) + 1
    values = [[times["start"] + number * times["step"], "1"] for number in range(count)]
    result = {"resultType": "matrix", "result": [{"metric": RATE_LABELS, "values": values}]}
    return answer(200, {"status": "success", "data": result})


def save(server: HttpServer, folder: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Ask a server that wants a token for a value of each minute of a day."""
    asked = Prometheus.at(server.url, {"QUOTAFORM_PROMETHEUS_TOKEN": "hidden"})
    # The times are multiples of the step.
    save_answers(asked, (), folder, progress, since=START - 7, until=START + 3600 * 24, step=60.0)


def times_in(folder: Path) -> list[float]:
    """Return the times of all samples in files."""
    items = [item for file in sorted(folder.iterdir()) for item in parse("prometheus", file.read_bytes(), Origin())]
    return [item.ts for item in items if isinstance(item, Sample)]


@pytest.mark.parametrize(("refusal", "limit"), [(None, None), (422, None), (503, None), (None, 3000)])
def test_slices_have_every_point_once_and_what_is_too_much_is_asked_for_in_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None, limit: int | None
) -> None:
    def reply(request: Received) -> bytes:
        times = asked(request)
        if refusal is None or (times["end"] - times["start"]) // times["step"] < 100:
            return recorded(request)
        return answer(refusal, {"status": "error", "error": "too many samples"})

    if limit is not None:
        monkeypatch.setattr(prometheus, "BODY_LIMIT", limit)
    steps: list[tuple[int, int]] = []
    with HttpServer(reply) as server:
        save(server, tmp_path, lambda done, total: steps.append((done, total)))
    assert times_in(tmp_path) == [START + 60 * number for number in range(1441)]
    assert steps[-1] == (1441, 1441)
    assert all(request.headers["authorization"] == "Bearer hidden" for request in server.received)
    assert all("/api/v1/query_range" in request.target for request in server.received)
    assert all(request.target.count("kafka_server_") == 1 for request in server.received)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer(401), "refused this with status 401; give a token in QUOTAFORM_PROMETHEUS_TOKEN"),
        (answer(400, {"status": "error", "error": "parse error\n::error"}), "check the URL, --query and --step"),
        (answer(422, {"status": "error", "error": "no"}), 'answered with status 422: "no"'),
        (answer(404, b"<html>"), "answered with status 404; check the URL"),
        (answer(200, b"<html>"), "did not answer as Prometheus does; check the URL"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(tmp_path: Path, reply: bytes, message: str) -> None:
    with HttpServer(lambda request: reply) as server, pytest.raises(MetricsError) as error:
        save(server, tmp_path)
    assert message in str(error.value)
    assert "hidden" not in str(error.value)
    assert "\n" not in str(error.value)
