"""What a live entity holds that files cannot say."""

from __future__ import annotations

import pytest

from quotaform.desired.writable import check_writable
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity

RATE = {"producer_byte_rate": 1024.0}
NAN, INFINITE = float("nan"), float("inf")


def test_a_finding_never_stops_the_work_and_an_unknown_key_is_only_a_note() -> None:
    findings = check_writable(Entity(user="a"), {"producer_byte_rate": NAN, "x": 1.0})
    assert [(finding.severity, finding.key) for finding in findings] == [
        (Severity.WARNING, "producer_byte_rate"),
        (Severity.NOTE, "x"),
    ]


@pytest.mark.parametrize("name", ["a" * 32_768, "å" * 16_384])
def test_a_name_that_cannot_be_sent_is_left_unchanged(name: str) -> None:
    (finding,) = check_writable(Entity(user=name), {"producer_byte_rate": 1.0})
    assert finding.rule == "bad-name"
