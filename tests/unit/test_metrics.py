"""Metrics: what a run says, what stays when it failed, and how they are served; `story-notify.txt` has their files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, create_server
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from quotaform.drift.alert import MetricStore
from quotaform.drift.metric import METRICS, RunFacts, Sample, merge_run
from quotaform.drift.prometheus import AT_ONCE, MetricsServer, parse_metrics, render_metrics
from tests.golden.example import example_drift

DRIFT = example_drift()


def run_of(cluster: str = "eu", *, failed: bool = False, at: float = 1000.0, notified: bool | None = None) -> RunFacts:
    return RunFacts(
        cluster=cluster,
        command="drift",
        version="0.1.0",
        finished_at=at,
        duration=1.5,
        drift=None if failed else DRIFT,
        first_seen=None if failed else at,
        is_notified=notified,
    )


def named(samples: dict[Sample, float], cluster: str = "eu") -> dict[str, float]:
    return {" ".join([name, *labels[1:]]): value for (name, labels), value in samples.items() if labels[0] == cluster}


def test_a_failed_run_changes_only_what_is_about_the_run() -> None:
    """An alert on drift went away when the check failed, as its gauges were set to 0."""
    before = merge_run({}, run_of())
    after = merge_run(before, run_of(failed=True, at=2000.0))
    changed = {key[0]: after[key] for key in after if after[key] != before[key]}
    assert changed == {"quotaform_last_run_success": 0}
    assert after.keys() == before.keys()


def test_first_seen_is_the_time_of_the_first_run_that_found_drift() -> None:
    again = merge_run(merge_run({}, run_of()), run_of(at=2000.0))
    assert named(again)["quotaform_drift_first_seen_timestamp_seconds"] == 1000
    assert named(again)["quotaform_last_success_timestamp_seconds drift"] == 2000


def test_the_format_is_that_of_the_textfile_collector() -> None:
    """node_exporter refuses times, and a scrape fails when two files have a series in common."""
    text = render_metrics(merge_run(merge_run({}, run_of()), run_of("us")))
    families = list(text_string_to_metric_families(text))
    assert [family.name for family in families] == [name for name in METRICS if name in text and "notify" not in name]
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert all(sample.timestamp is None for family in families for sample in family.samples)
    assert all("cluster" in sample.labels for family in families for sample in family.samples)
    assert text.endswith("\n")


@given(st.text(min_size=1, max_size=20))
@settings(max_examples=50)
def test_what_is_written_is_read_back(cluster: str) -> None:
    name = cluster.encode("utf-8", "replace").decode()
    samples = merge_run({}, run_of(name))
    assert parse_metrics(render_metrics(samples)) == samples


def test_metrics_of_others_are_not_read() -> None:
    assert parse_metrics('up 1\nquotaform_managed_entities{job="x"} 1\nquotaform_other{cluster="a"} 1\n') == {}


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
@settings(max_examples=50)
def test_damage_anywhere_is_read_or_refused(place: int, noise: bytes) -> None:
    text = render_metrics(merge_run({}, run_of())).encode()
    damaged = (text[: place * 7] + noise + text[place * 7 + 2 :]).decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        parse_metrics(damaged)


def test_runs_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Of two runs that had read the file before either wrote it, the metrics of one were lost."""
    path = tmp_path / "q.prom"
    names = [f"c{number}" for number in range(8)]
    warnings: list[str] = []

    def add(name: str) -> None:
        for at in range(4):
            MetricStore({name: path}.get, warnings.append).add([run_of(name, at=float(at + 1))])

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(add, names))
    samples = parse_metrics(path.read_text())
    assert [samples["quotaform_last_success_timestamp_seconds", (name, "drift")] for name in names] == [4.0] * 8
    assert warnings == []
    assert [each.name for each in tmp_path.iterdir()] == ["q.prom"]


HEALTH: dict[str, Any] = {"status": "ok"}


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, MetricsServer]]:
    samples = merge_run({}, run_of())
    made = MetricsServer(request.param, 0, lambda: samples, lambda: (HEALTH["status"] != "stalled", HEALTH))
    made.start()
    yield request.param, made
    made.close()


def ask(server: tuple[str, MetricsServer], method: str, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection(server[0], server[1].port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
def test_metrics_are_served_in_the_format_of_prometheus(server: tuple[str, MetricsServer]) -> None:
    status, content_type, text = ask(server, "GET", "/metrics")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert parse_metrics(text) == merge_run({}, run_of())


@pytest.mark.slow
def test_health_is_json_and_the_status_says_whether_it_works(
    server: tuple[str, MetricsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(server, "GET", "/healthz")[::2] == (200, '{"status": "ok"}\n')
    monkeypatch.setitem(HEALTH, "status", "stalled")
    status, content_type, text = ask(server, "GET", "/healthz")
    assert (status, content_type, json.loads(text)) == (503, "application/json", {"status": "stalled"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/../../etc/passwd", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
        ("HEAD", "/metrics", 405),
        ("GET", "/metrics?name[]=quotaform_managed_entities", 200),
    ],
)
@pytest.mark.slow
def test_nothing_else_is_served(server: tuple[str, MetricsServer], method: str, path: str, status: int) -> None:
    assert ask(server, method, path)[0] == status


@pytest.mark.slow
def test_connections_that_say_nothing_keep_nobody_out(server: tuple[str, MetricsServer]) -> None:
    with ExitStack() as stack:
        for _ in range(3 * AT_ONCE):
            connection = stack.enter_context(create_connection((server[0], server[1].port)))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert ask(server, "GET", "/healthz")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("request_bytes", [b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 70_000])
def test_what_is_no_request_is_refused_and_others_are_served(
    server: tuple[str, MetricsServer], request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with create_connection((server[0], server[1].port)) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(1)
        while connection.recv(65536):
            pass
    assert ask(server, "GET", "/healthz")[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_an_address_that_is_taken_is_an_error() -> None:
    with create_server(("127.0.0.1", 0)) as listening, pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", listening.getsockname()[1], dict, lambda: (True, {}))
