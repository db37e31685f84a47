"""Findings are shown in two orders: those in files by place, those about a cluster by severity."""

from __future__ import annotations

from random import Random

from quotaform.model.finding import Finding, Location, Severity, by_place, by_severity


def test_findings_in_files_go_by_place_whatever_their_severity() -> None:
    expected = [
        Finding(rule="r", message="nowhere"),
        Finding(rule="r", message="the file", location=Location("a.yaml")),
        Finding(rule="r", message="m", severity=Severity.WARNING, location=Location("a.yaml", 2, 9)),
        Finding(rule="r", message="m", location=Location("a.yaml", 10, 3)),
        Finding(rule="s", message="m", location=Location("a.yaml", 10, 3)),
        Finding(rule="r", message="m", location=Location("b.yaml", 1, 1)),
    ]
    mixed = Random(1).sample(expected, len(expected))
    assert by_place(mixed) == expected


def test_findings_about_a_cluster_go_by_severity_then_by_rule_and_entity() -> None:
    expected = [
        Finding(rule="z", message="m", blocking=True, severity=Severity.WARNING, address="user=z"),
        Finding(rule="z", message="m"),
        Finding(rule="a", message="m", address="user=a"),
        Finding(rule="z", message="m", severity=Severity.WARNING),
        Finding(rule="a", message="m", severity=Severity.WARNING, address="user=a", key="k"),
        Finding(rule="a", message="m", severity=Severity.WARNING, address="user=b"),
        Finding(rule="b", message="m", severity=Severity.WARNING, address="user=a"),
        Finding(rule="a", message="m", severity=Severity.NOTE, address="user=a"),
    ]
    mixed = Random(1).sample(expected, len(expected))
    assert by_severity(mixed) == expected


def test_what_is_about_no_entity_keeps_the_order_in_which_it_was_found() -> None:
    found = [Finding(rule=rule, message="m", severity=Severity.NOTE) for rule in ("b", "a", "c")]
    assert by_severity(found) == found
