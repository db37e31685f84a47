"""The report of a run over clusters: made of digests, bounded for people, and whole as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.cli.ci import MOST_SUMMARIES
from quotaform.cli.console import Console
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.fleet.fleet_report import MOST_LARGEST, FleetReport, FleetStatus, make_fleet_report
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterIdError, PlanBlockedError, QuotaformError
from quotaform.model.finding import Finding
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Snapshot
from quotaform.report.format import render
from tests.builder import PRODUCER
from tests.golden.fleet_example import down, invalid, planned, radius
from tests.loading import load_schema
from tests.markdown_document import read_markdown

ALICE = Entity(user="alice")


def test_errors_that_differ_in_cluster_server_and_numbers_are_one_group() -> None:
    report = make_fleet_report(
        "plan", [invalid("c"), down("a", "10.0.0.1:9092"), down("bb", "host.example:19092"), down("c3", "[::1]:9093")]
    )
    assert [each.clusters for each in report.errors] == [("a", "bb", "c3"), ("c",)]
    assert report.errors[0].message.startswith("Cannot connect to a: ")


def test_a_rule_counts_each_cluster_that_it_blocks_and_so_does_an_error_about_rules() -> None:
    finding = Finding(rule="delete", message="too many", blocking=True)
    pinned = Finding(rule="cluster-id", message="another one", blocking=True)
    report = make_fleet_report(
        "plan",
        [
            planned("a", ("delete", "change-factor"), delete=5),
            ClusterOutcome("b", error=PlanBlockedError("b", [finding])),
            ClusterOutcome("c", error=ClusterIdError(pinned, expected="x", found="y")),
        ],
    )
    assert [(each.rule, each.clusters) for each in report.blocked] == [
        ("delete", ("a", "b")),
        ("change-factor", ("a",)),
        ("cluster-id", ("c",)),
    ]
    assert report.statuses[FleetStatus.BLOCKED] == 3
    assert report.errors == ()


@pytest.mark.parametrize("unknown", ["", "yesterday", "2026-01-01"])
def test_the_oldest_snapshot_is_the_oldest_of_those_whose_time_is_known(unknown: str) -> None:
    odd = planned("a", captured_at=unknown or "?")
    live, later = planned("b"), planned("c", captured_at="2026-11-20T00:30:00+01:00")
    oldest = planned("d", captured_at="2026-11-19T23:00:00Z")
    found = make_fleet_report("plan", [odd, live, later, oldest]).oldest
    assert found is not None
    assert found.cluster == "d"
    assert make_fleet_report("plan", [odd, live]).oldest is None


def shown(report: FleetReport, format_name: str, **options: Any) -> str:
    return "".join(render("fleet-report", format_name, report, **options))


@pytest.mark.exhaustive
def test_text_and_markdown_are_bounded_and_json_has_every_cluster() -> None:
    limits = radius(4, lower=4)
    planned_ones = [planned(f"c{number:05}", update=number % 7, blast_radius=limits) for number in range(20_000)]
    rules = [planned(f"r{number}", (f"rule-{number}",), delete=1) for number in range(50)]
    errors: list[ClusterOutcome[Any]] = [
        ClusterOutcome(f"e{number}", error=QuotaformError(f"{'e' * number} is wrong")) for number in range(50)
    ]
    report = make_fleet_report("plan", [*planned_ones, *rules, *errors])
    lines = shown(report, "text").splitlines()
    assert len(lines) < 1_200
    assert lines[-1] == "  ... and 19,600 more. --report json=report.json writes all of them"
    assert len(shown(report, "markdown").encode()) <= 60_000
    for format_name in ("text", "markdown"):
        assert shown(report, format_name).count("nd 30 more. ") == 2
    document = json.loads(shown(report, "json"))
    assert len(document["rows"]) == 20_100
    assert len(document["largest"]) == MOST_LARGEST


def test_no_name_breaks_out() -> None:
    name = "a|b`<img>@team\n::error::#1"
    report = make_fleet_report("plan", [planned(name, update=1), down(name, f"{name}:1"), planned("b", ("delete",))])
    assert "\n::error" not in shown(report, "text")
    document = read_markdown(shown(report, "markdown", run_url="javascript:x"))
    assert (document.html, document.links, document.references) == ([], [], [])
    assert all(len(set(table)) == 1 for table in document.tables)


def test_a_report_of_no_clusters_is_valid_and_says_why() -> None:
    error = invalid("x").error
    assert error is not None
    report = make_fleet_report("drift", [], error=error)
    Draft7Validator(load_schema("fleet-report")).validate(json.loads(shown(report, "json")))
    assert "Report of quotaform drift: 0 clusters\nThe run failed: " in shown(report, "text")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Write a folder with clusters, of which every second differs from the files, and one that is down."""
    monkeypatch.chdir(tmp_path)

    def write(clusters: int) -> None:
        Path("quotas.d").mkdir()
        Path("quotas.d/all.yaml").write_text(f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2MiB/s}}}}]\n")
        config = {f"c{number}": {"snapshot": f"c{number}.json"} for number in range(clusters)}
        for number, name in enumerate(config):
            quotas = {ALICE: {PRODUCER: 2.0 ** (20 + number % 2)}}
            taken = Snapshot(cluster_name=name, cluster_id=name, captured_at="2026-11-20T09:12:44Z", quotas=quotas)
            Path(f"{name}.json").write_text(dump_snapshot(taken))
        down = {"down": {"bootstrap_servers": ["127.0.0.1:1"]}}
        Path("quotaform.yaml").write_text(json.dumps({"clusters": {**config, **down}}))

    return write


def report_of(path: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(Path(path).read_text())
    Draft7Validator(load_schema("fleet-report")).validate(document)
    return document


@pytest.mark.parametrize("command", ["plan", "drift"])
def test_an_interrupt_leaves_a_report_of_what_was_known(
    command: str, fleet: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Console, what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    fleet(2)
    monkeypatch.setattr(Console, "progress", stop)
    assert run([command, "--all", "--report", "report.json"]) == 130
    document = report_of("report.json")
    assert document["interrupted"] is True
    assert document["clusters"]["not_reached"] > 0  # type: ignore[index]


@pytest.mark.parametrize(("interrupts", "code", "status"), [(False, 1, "failed"), (True, 130, "not_reached")])
def test_an_apply_has_a_report(
    interrupts: bool,
    code: int,
    status: str,
    fleet: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    fleet(2)
    assert run(["plan", "--cluster", "c*", "--out", "{cluster}-plan.json"]) == 0
    down = {"bootstrap_servers": ["127.0.0.1:1"]}
    Path("quotaform.yaml").write_text(json.dumps({"clusters": {"c0": down, "c1": down}}))
    if interrupts:
        monkeypatch.setattr("quotaform.apply.run.apply_plans", stop)
    capsys.readouterr()
    plans = ["c0-plan.json", "c1-plan.json"]
    assert run(["apply", *plans, "--report", "report.json", "--format", "report"]) == code
    document = report_of("report.json")
    assert document["command"] == "apply"
    assert document["interrupted"] is interrupts
    assert document["clusters"][status] == 2  # type: ignore[index]
    assert interrupts or capsys.readouterr().out.startswith("Report of quotaform apply: 2 clusters\n")


@pytest.mark.parametrize("command", ["plan", "drift"])
def test_the_summary_of_a_step_has_one_report_of_many_clusters(
    command: str, fleet: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(MOST_SUMMARIES)
    Path("summary.md").touch()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    run([command, "--cluster", "c*"])
    assert Path("summary.md").read_text().count("### Kafka quota ") == MOST_SUMMARIES
    Path("summary.md").write_text("")
    run([command, "--all"])
    summary = Path("summary.md").read_text()
    assert summary.startswith(f"### Kafka quota {command} for {MOST_SUMMARIES + 1} clusters: ")
    assert summary.count("### Kafka quota ") == 1
