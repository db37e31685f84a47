"""Metrics: what a run says, what stays when it failed, how they are served, and the alerts and dashboard on them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, create_server
from typing import Any

import promql_parser
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from quotaform.drift.metric import (
    AT_ONCE,
    METRICS,
    MetricSample,
    MetricsServer,
    MetricStore,
    RunFacts,
    merge_run,
    parse_metrics,
    render_metrics,
)
from tests.golden.example import example_drift
from tests.markdown import ROOT, anchors

DRIFT = example_drift()


def run_of(cluster: str = "eu", *, failed: bool = False, at: float = 1000.0, notified: bool | None = None) -> RunFacts:
    return RunFacts(
        cluster=cluster,
        version="0.1.0",
        finished_at=at,
        duration=1.5,
        drift=None if failed else DRIFT,
        first_seen=None if failed else at,
        is_notified=notified,
    )


def named(samples: dict[MetricSample, float], cluster: str = "eu") -> dict[str, float]:
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
            store = MetricStore({name: path}.get, warnings.append)
            store.add([run_of(name, at=float(at + 1))])
            store.write()

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
    made.shutdown()
    made.server_close()


def ask(server: tuple[str, MetricsServer], method: str, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection(server[0], server[1].server_port, timeout=10)
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
            connection = stack.enter_context(create_connection((server[0], server[1].server_port)))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert ask(server, "GET", "/healthz")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("request_bytes", [b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 70_000])
def test_what_is_no_request_is_refused_and_others_are_served(
    server: tuple[str, MetricsServer], request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with create_connection((server[0], server[1].server_port)) as connection:
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


FOLDER = ROOT / "examples" / "monitoring"
PAGE = ROOT / "docs" / "drift.md"
RUNBOOK = "https://github.com/quotaform/quotaform/blob/main/docs/drift.md#"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "quotaform-alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "quotaform-dashboard.json").read_text("utf-8"))
LABEL_VALUES = {
    "class": {"modified", "missing", "unexpected"},
    "action": {"create", "update", "delete"},
    "scope": {"in", "out"},
    "command": {"drift"},
}

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def targets() -> Iterator[tuple[str, str]]:
    """Yield each expression of the dashboard with its legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def selectors(expression: str) -> list[tuple[str, dict[str, str]]]:
    """Return the metrics in an expression that Prometheus can parse, each with what its labels are matched with."""
    promql_parser.parse(expression)
    found = re.findall(r"\b(quotaform_[a-z_]+)(?:\{(.*?)\})?", expression)
    return [(name, dict(re.findall(r"""(\w+)[=!~]+["'](.*?)["']""", labels))) for name, labels in found]


EXPRESSIONS = [rule["expr"] for rule in RULES] + [expression for expression, _ in targets()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_exists(expression: str) -> None:
    for name, matchers in selectors(expression):
        _, labels = METRICS[name]
        for label, value in matchers.items():
            assert label in labels, expression
            values = LABEL_VALUES.get(label)
            assert values is None or set(value.split("|")) <= values, expression


@pytest.mark.parametrize("text", ["quotaform_drift_entitie > 0", "sum(quotaform_pending_changes{acton='x'})"])
def test_a_metric_that_does_not_exist_is_found(text: str) -> None:
    with pytest.raises((KeyError, AssertionError)):
        test_every_metric_and_label_exists(text)


@every_rule
def test_a_rule_has_what_an_operator_needs(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"KafkaQuota([A-Z][a-z]+)+", rule["alert"])
    assert rule["for"]
    assert rule["labels"]["severity"] in {"ticket", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}{rule['alert'].lower()}"
    assert rule["alert"].lower() in anchors(PAGE)
    used = set(re.findall(r"\$labels\.([a-z]+)", " ".join(rule["annotations"].values())))
    assert used <= ({"cluster"} if not rule["expr"].startswith("absent") else set()), "the expression keeps no others"


def test_every_metric_is_on_the_dashboard() -> None:
    used = {name for expression, _ in targets() for name, _ in selectors(expression)}
    assert used == METRICS.keys()


def test_the_dashboard_is_complete() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "cluster"}
    (used,) = re.findall(r"label_values\((\w+), cluster\)", variables["cluster"]["query"]["query"])
    assert used in METRICS
    for expression, legend in targets():
        assert 'cluster=~"$cluster"' in expression
        labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
        kept = {label for name, _ in selectors(expression) for label in METRICS[name][1]}
        assert labels <= kept


def test_the_page_lists_every_metric() -> None:
    text = PAGE.read_text("utf-8")
    for name, (said, labels) in METRICS.items():
        assert f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {said} |" in text
