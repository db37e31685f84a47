"""Asking a Prometheus for what it has recorded: slices, limits, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from quotaform.cli.command.usage.ingest import PrometheusRange
from quotaform.model.errors import MetricsError
from quotaform.usage.format.prometheus import parse_prometheus
from quotaform.usage.ingest.input import RangeQuery, save_answers
from quotaform.usage.metric_name import Origin
from quotaform.usage.record import reader
from quotaform.usage.record.reader import Prometheus
from quotaform.usage.sample import Sample
from tests.http_server import HttpServer, Received, answer

START = 1_795_000_000
LABELS = {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": "alice", "cluster": "lab"}


def asked(request: Received) -> dict[str, float]:
    """Return the times of a range query."""
    fields = parse_qs(urlsplit(request.target).query)
    return {name: float(fields[name][0]) for name in ("start", "end", "step")}


def recorded(request: Received) -> bytes:
    """Answer as a Prometheus that has a value at each point."""
    times = asked(request)
    count = int((times["end"] - times["start"]) // times["step"]) + 1
    values = [[times["start"] + number * times["step"], "1"] for number in range(count)]
    result = {"resultType": "matrix", "result": [{"metric": LABELS, "values": values}]}
    return answer(200, {"status": "success", "data": result})


def query(server: HttpServer) -> RangeQuery:
    return RangeQuery(
        server=Prometheus.at(server.url, {"QUOTAFORM_PROMETHEUS_TOKEN": "hidden"}),
        since=START,
        until=START + 3600 * 24,
        step=60.0,
    )


def times_in(folder: Path) -> list[float]:
    """Return the times of all samples in files."""
    items = [item for file in sorted(folder.iterdir()) for item in parse_prometheus(file.read_bytes(), Origin())]
    return [item.ts for item in items if isinstance(item, Sample)]


def test_slices_have_every_point_once(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with HttpServer(recorded) as server:
        save_answers(query(server), tmp_path, lambda done, total: steps.append((done, total)))
    assert times_in(tmp_path) == [START + 60 * number for number in range(1441)]
    assert steps[-1] == (1441, 1441)
    assert all(request.headers["authorization"] == "Bearer hidden" for request in server.received)
    assert all("/api/v1/query_range" in request.target for request in server.received)


def limited(points: int, refusal: bytes) -> Callable[[Received], bytes]:
    """Answer only if so many points are asked for, at most."""

    def reply(request: Received) -> bytes:
        times = asked(request)
        is_small = (times["end"] - times["start"]) // times["step"] < points
        return recorded(request) if is_small else refusal

    return reply


@pytest.mark.parametrize("status", [422, 503])
def test_what_is_too_much_is_asked_for_in_halves(tmp_path: Path, status: int) -> None:
    with HttpServer(limited(100, answer(status, {"status": "error", "error": "too many samples"}))) as server:
        save_answers(query(server), tmp_path, lambda done, total: None)
    assert times_in(tmp_path) == [START + 60 * number for number in range(1441)]


def test_an_answer_that_is_too_large_is_asked_for_in_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BODY_LIMIT", 3000)
    with HttpServer(recorded) as server:
        save_answers(query(server), tmp_path, lambda done, total: None)
    assert times_in(tmp_path) == [START + 60 * number for number in range(1441)]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer(401), "refused this with status 401; give a token in QUOTAFORM_PROMETHEUS_TOKEN"),
        (answer(400, {"status": "error", "error": "parse error\n::error"}), "correct --query or --step"),
        (answer(422, {"status": "error", "error": "no"}), 'answered with status 422: "no"'),
        (answer(404, b"<html>"), "answered with status 404; check the URL"),
        (answer(200, b"<html>"), "did not answer as Prometheus does; check the URL"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(tmp_path: Path, reply: bytes, message: str) -> None:
    with HttpServer(lambda request: reply) as server, pytest.raises(MetricsError) as error:
        save_answers(query(server), tmp_path, lambda done, total: None)
    assert message in str(error.value)
    assert "hidden" not in str(error.value)
    assert "\n" not in str(error.value)


def test_times_are_multiples_of_the_step() -> None:
    since = datetime(2026, 11, 1, 0, 0, 7, tzinfo=UTC)
    asked = PrometheusRange(prometheus="http://127.0.0.1:9", since=since, until=since + timedelta(days=1), step=30.0)
    found = asked.range_query()
    assert found is not None
    assert found.since % 30 == 0
    assert json.dumps(found.queries).count("kafka_server_") == 1
