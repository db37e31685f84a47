"""Files of any size and shape: a bounded number of problems, in bounded time.

A million bad lines took minutes, a gigabyte of memory and 28 MB of output.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date

import pytest

from quotaform.desired.loader import conclude
from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.model import rule
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.finding_list import MAX_PROBLEMS, FindingList, first_findings
from tests.golden.conftest import Golden, golden
from tests.golden.table import check_told

pytestmark = pytest.mark.exhaustive
__all__ = ["golden"]

TODAY = date(2026, 6, 1)
LINES = 110_000
"""More than any limit."""
SECONDS = 20
"""More than it takes by far, and far less than anything quadratic takes."""

ENTRY = "quotas:\n  - match: {user: a}\n"


def numbered(line: str, number: int = LINES) -> str:
    """Return as many lines, each with its number where `{}` is."""
    return "".join(line.replace("{}", str(at)) for at in range(number))


def findings_of(text: str) -> list[Finding]:
    begin = time.process_time()
    _, findings = conclude([load_file(SourceFile("f.yaml", text), {})], TODAY)
    assert time.process_time() - begin < SECONDS
    return findings


def test_of_a_great_many_problems_the_first_hundred_are_shown(golden: Golden) -> None:
    """What is too large is one problem; the files are made here, as they are 60 MB."""

    def of_file(expression: str) -> Iterator[str]:
        found = [str(each) for each in findings_of(eval(expression))]  # noqa: S307 (our own)
        assert max(map(len, found)) < 500
        yield from found if len(found) < 4 else [found[0], f"... {len(found) - 2} more ...", found[-1]]

    check_told(golden, "large-files.txt", of_file)


@pytest.mark.parametrize(
    ("line", "number"), [("#" + "x" * 1_000_000 + "\n", 20), ("# x\n", 3_000_000), ("\n", 10_000_000)]
)
def test_a_large_file_that_says_little_is_read(line: str, number: int) -> None:
    assert findings_of(line * number + ENTRY + "    values: {producer_byte_rate: 1}\n") == []


def test_warnings_are_limited_and_do_not_hide_errors() -> None:
    names = numbered("  - {match: {user: 'a*{}'}, values: {producer_byte_rate: 1}}\n", 500)
    findings = findings_of(f"quotas:\n{names}  - x\n")
    assert [str(finding.severity) for finding in findings].count("warning") == MAX_PROBLEMS
    assert [finding.message for finding in findings if finding.severity is Severity.ERROR] == [
        'item 501 of quotas must be a mapping, not "x"'
    ]
    assert findings[-1].rule == rule.MORE_WARNINGS.id


def test_a_list_that_was_cut_stays_known_as_cut() -> None:
    found = FindingList(rule.BAD_NAME.finding(str(number)) for number in range(MAX_PROBLEMS + 1)).all()
    assert first_findings(found) == first_findings(first_findings(found))
    assert found[-1].rule == rule.MORE_PROBLEMS.id


@pytest.mark.parametrize("anchored", ["", "&first "])
def test_places_in_a_long_file_are_those_of_each_entry(anchored: str) -> None:
    """Entries are read in parts, and what is known of one part is forgotten after it, but for what aliases repeat."""
    lines = [f"  - {anchored}{{match: {{user: u0}}, values: {{producer_byte_rate: 1}}}}\n"]
    lines += numbered("  - {match: {user: u{}}, values: {producer_byte_rate: 1}}\n", 3000).splitlines(keepends=True)[1:]
    lines.append("  - {match: {user: 7}, values: {producer_byte_rate: 1, consumer_byte_rate: 0}}\n")
    lines.append("  - {<<: *first, match: {user: z}}\n" if anchored else "  - x\n")
    file = load_file(SourceFile("f.yaml", "quotas:\n" + "".join(lines)), {})
    assert [finding.location.line for finding in file.problems if finding.location][:2] == [3002, 3002]
    entry = file.entries[2500]
    assert (entry.entity.address, entry.location) == ("user=u2500", Location("f.yaml", 2502, 5))
    assert entry.provenances()["producer_byte_rate"].location.line == 2502
    if anchored:
        assert file.entries[-1].provenances()["producer_byte_rate"].location == Location("f.yaml", 2, 41)
