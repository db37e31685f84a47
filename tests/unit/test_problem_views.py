"""Findings beside the files, how many people read, and the report of a run over clusters.

`story-fleet.txt` has what commands write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft7Validator
from msgspec import structs

from quotaform.drift.drift import make_drift
from quotaform.drift.report import render_drift
from quotaform.fleet.report import MOST_LARGEST, FleetReport, make_fleet_report
from quotaform.model import rule
from quotaform.model.errors import ClusterIdError, PlanBlockedError, QuotaformError
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.rule import RULES
from quotaform.plan.report import render_plan
from quotaform.plan.validate import DeclaredEntities, Validation, render_validation
from quotaform.report.format import render
from tests.builder import plan_of
from tests.golden.example import example_plan
from tests.golden.fleet_example import down, invalid, planned, radius
from tests.loading import load_schema
from tests.markdown import markdown_of, read_markdown

SCHEMA = Path(__file__).parents[1] / "data" / "sarif-2.1.0-rtm.5.json"
HOSTILE = "x,y:z\n::error::boom\r%0A##[error]\x1b[31m"


def rendered(subject: str, format_name: str, value: object, **options: Any) -> str:
    return "".join(render(subject, format_name, value, **options))


def validation(*problems: Finding) -> Validation:
    return Validation(
        directory="quotas.d", files=1, entities=(DeclaredEntities(cluster=None, count=1),), problems=problems
    )


def finding(
    message: str, line: int = 1, *, file: str = "quotas.d/a.yaml", severity: Severity = Severity.ERROR, **more: Any
) -> Finding:
    return Finding(rule="bad-value", message=message, severity=severity, location=Location(file, line, 3), **more)


def test_a_tenth_annotation_of_a_type_says_how_many_more_there_are() -> None:
    warnings = [finding(f"w{number}", severity=Severity.WARNING) for number in range(10)]
    text = rendered("validation", "github", validation(*(finding(f"e{number}") for number in range(25)), *warnings))
    lines = text.splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert lines[9] == "::error title=quotaform::and 16 more errors, see the output of this step"
    assert sum(line.startswith("::warning ") for line in lines) == 10
    assert "more" not in lines[-1]


def test_a_finding_about_a_changed_entity_is_where_that_is_declared() -> None:
    blocked = Finding(rule="delete", message="no", blocking=True, address="user=svc-orders", severity=Severity.WARNING)
    text = rendered("plan", "github", replace(example_plan(), findings=(blocked,)))
    assert text.startswith("::error file=quotas.d/teams.yaml,line=6,")
    assert text.endswith("::user=svc-orders: no\n")


def test_paths_are_those_of_the_repository_and_a_file_outside_of_it_is_not_named() -> None:
    inside = rendered("validation", "github", validation(finding("wrong")), place=lambda file: f"infra/{file}")
    assert "file=infra/quotas.d/a.yaml," in inside
    for format_name in ("github", "sarif", "gitlab"):
        text = rendered("validation", format_name, validation(finding("wrong", file="/home/u/a.yaml")))
        assert "/home" not in text


@pytest.fixture(scope="module")
def schema() -> Draft4Validator:
    return Draft4Validator(json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("number", [0, 1, pytest.param(6_000, marks=pytest.mark.exhaustive)])
def test_sarif_is_valid_by_its_schema(number: int, schema: Draft4Validator) -> None:
    problems = [finding("w", line) for line in range(number)]
    document = json.loads(rendered("validation", "sarif", validation(*problems)))
    assert list(schema.iter_errors(document)) == []
    [run] = document["runs"]
    assert len(run["results"]) == min(number, 5_000)
    notes = run["invocations"][0].get("toolExecutionNotifications", [])
    assert [note["message"]["text"][:10] for note in notes] == (["1,000 more"] if number > 5_000 else [])


def test_sarif_of_plans_and_drift_and_of_every_rule_is_valid(schema: Draft4Validator) -> None:
    plan = replace(example_plan(), findings=tuple(row.finding("x", address="user=a") for row in RULES.values()))
    hostile = Finding(rule="no such rule", message=HOSTILE, address=HOSTILE, location=Location("a b:Å?.yaml", 2))
    found = (("plan", plan), ("drift", make_drift(example_plan())), ("validation", validation(hostile)))
    for subject, value in found:
        assert list(schema.iter_errors(json.loads(rendered(subject, "sarif", value)))) == []


def test_a_fingerprint_stays_when_lines_move_and_differs_for_what_differs() -> None:
    def prints(*lines: int) -> list[str]:
        problems = [finding("a", line, address=f"user={at}" if at < 2 else None) for at, line in enumerate(lines)]
        document = json.loads(rendered("validation", "sarif", validation(*problems)))
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in document["runs"][0]["results"]]

    assert prints(1, 2, 3, 4) == prints(7, 8, 9, 12)
    assert len(set(prints(1, 2, 3, 4))) == 4


def test_code_quality_tells_issues_apart_and_ranks_them() -> None:
    note = rule.EXPIRED.finding("old", location=Location("quotas.d/a.yaml", 4))
    issues = json.loads(rendered("validation", "gitlab", validation(finding("wrong", 12), note)))
    issues += json.loads(rendered("drift", "gitlab", make_drift(example_plan())))
    assert [issue["severity"] for issue in issues[:2]] == ["major", "info"]
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


@pytest.mark.parametrize(
    "render",
    [
        lambda some: render_validation(validation(*some)),
        lambda some: markdown_of("validation", validation(*some)),
        lambda some: "".join(render_plan(replace(plan_of({}, {}), findings=some))),
        lambda some: markdown_of("plan", replace(plan_of({}, {}), findings=some)).partition("Full text")[0],
        lambda some: render_drift(structs.replace(make_drift(plan_of({}, {})), findings=some)),
        lambda some: markdown_of("drift", structs.replace(make_drift(plan_of({}, {})), findings=some)),
    ],
)
def test_the_warnings_of_one_rule_do_not_bury_the_others(render: Callable[[Sequence[Finding]], str]) -> None:
    """One lint stood there 20 times, and what else there was to know between its lines."""
    lints = [finding(f"w{number} is odd", number, severity=Severity.WARNING) for number in range(20)]
    text = render((*lints, structs.replace(lints[0], rule="other", message="look here")))
    assert [number for number in range(20) if f"w{number} is odd" in text] == [0, 1, 2, 3, 4]
    assert "15" in text
    assert "--format json" in text
    assert "look here" in text


def test_errors_of_files_are_all_shown() -> None:
    text = render_validation(validation(*(finding(f"e{number}", number) for number in range(20))))
    assert text.count("error: e") == 20


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
            ClusterOutcome("b", error=PlanBlockedError([finding])),
            ClusterOutcome("c", error=ClusterIdError(pinned)),
        ],
    )
    assert [(each.rule, each.clusters) for each in report.blocked] == [
        ("delete", ("a", "b")),
        ("change-factor", ("a",)),
        ("cluster-id", ("c",)),
    ]
    assert report.clusters["blocked"] == 3
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
