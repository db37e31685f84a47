"""What is said about every kind of mistake in quotas.d: the exact words and the exact place."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

from quotaform.desired.tree import SourceFile
from quotaform.model.finding import Severity
from tests.loading import check

GOLDEN = Path(__file__).with_name("problems.txt")
TODAY = date(2026, 1, 1)
PROFILES = {"gold": {"producer_byte_rate": 5.0}, "silver": {}}


class Case(NamedTuple):
    title: str
    text: str
    said: list[str]


def read_cases() -> list[Case]:
    cases = []
    for block in GOLDEN.read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, rest = block.partition("\n")
        text, *said = rest.split("\n=> ")
        cases.append(Case(title, text + "\n", [line.strip("\n") for line in said]))
    return cases


def say(text: str) -> list[str]:
    _, findings = check([SourceFile("f.yaml", text)], PROFILES, TODAY)
    return [str(finding) for finding in findings]


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.title)
def test_a_mistake_is_named_with_its_place_and_a_remedy(case: Case) -> None:
    assert say(case.text) == case.said


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.title)
def test_what_is_said_holds_in_one_line(case: Case) -> None:
    _, findings = check([SourceFile("f.yaml", case.text)], PROFILES, TODAY)
    assert findings
    assert all(str(finding).isprintable() for finding in findings)
    assert all(finding.location and finding.location.line for finding in findings)


def test_control_characters_in_a_name_are_a_warning_because_kafka_takes_them() -> None:
    case = next(case for case in read_cases() if case.title == "control characters in a name")
    desired, findings = check([SourceFile("f.yaml", case.text)], PROFILES, TODAY)
    assert len(desired) == 1
    assert [finding.severity for finding in findings] == [Severity.WARNING]


def test_the_golden_file_is_what_is_said() -> None:
    head = GOLDEN.read_text(encoding="utf-8").split("=== ")[0]
    blocks = [
        f"=== {case.title}\n{case.text}" + "".join(f"=> {line}\n" for line in say(case.text)) for case in read_cases()
    ]
    text = head + "\n".join(blocks)
    if os.environ.get("QUOTAFORM_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
