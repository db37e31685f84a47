"""The report of a run over clusters: made of digests, bounded for people, and whole as JSON.

`story-fleet.txt` has what commands write.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.fleet.fleet_report import MOST_LARGEST, FleetReport, FleetStatus, make_fleet_report
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterIdError, PlanBlockedError, QuotaformError
from quotaform.model.finding import Finding
from quotaform.model.outcome import ClusterOutcome
from quotaform.report.format import render
from tests.golden.fleet_example import down, invalid, planned, radius
from tests.loading import load_schema
from tests.markdown import read_markdown

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
