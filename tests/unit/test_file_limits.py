"""Files of any size and shape: a bounded number of problems, in bounded time.

A million bad lines took minutes, a gigabyte of memory and 28 MB of output.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date

import pytest

from quotaform.desired.loader import conclude
from quotaform.desired.match import MAX_ENTITIES
from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.desired.yaml.reader import MAX_ANCHORED, MAX_CHARACTERS, MAX_VALUES
from quotaform.model import rule
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.finding_list import MAX_PROBLEMS, FindingList, first_findings

pytestmark = pytest.mark.exhaustive

TODAY = date(2026, 6, 1)
LINES = 110_000
"""More than any limit."""
SECONDS = 20
"""More than it takes by far, and far less than anything quadratic takes."""

ENTRY = "quotas:\n  - match: {user: a}\n"


def numbered(line: str, number: int = LINES) -> str:
    """Return as many lines, each with its number where `{}` is."""
    return "".join(line.replace("{}", str(at)) for at in range(number))


# Made in the tests: they are 60 MB.
MANY: dict[str, Callable[[], str]] = {
    "bad items": lambda: "quotas:\n" + "  - x\n" * LINES,
    "bad entries": lambda: "quotas:\n" + "  - match: {user: 7}\n" * LINES,
    "bad entries on one line": lambda: "quotas: [" + "{match: {user: 7}}, " * LINES + "]\n",
    "bad names": lambda: "quotas:\n  - match:\n      user:\n" + "        - 7\n" * LINES,
    "bad aliases": lambda: "x: &x {match: {user: 7, ip: 8}}\nquotas:\n" + "  - *x\n" * LINES,
    "an entity twice": lambda: "quotas:\n" + "  - {match: {user: a}, values: {producer_byte_rate: 1}}\n" * LINES,
    "unknown fields of the file": lambda: numbered("k{}: 1\n"),
    "unknown fields of an entry": lambda: ENTRY + numbered("    k{}: 1\n"),
    "unknown entity types": lambda: "quotas:\n  - match:\n" + numbered("      k{}: 1\n"),
    "unknown keys": lambda: f"{ENTRY}    values:\n" + numbered("      k{}: 1\n"),
    "a key twice": lambda: f"{ENTRY}    values:\n" + "      producer_byte_rate: 1\n" * LINES,
    "a key of the file twice": lambda: "k: 1\n" * LINES,
    "tags": lambda: "quotas:\n" + "  - !!python/object:os.system x\n" * LINES,
    "line ends of old": lambda: "quotas:\r" + "  - x\r" * LINES,
    "marks in the middle": lambda: "quotas:\n" + "\ufeff  - x\n" * LINES,
}
CROSS = (
    f"quotas: [{{match: {{user: [{numbered('u{},', 1000)}], client-id: [{numbered('c{},', 1000)}]}}, values: {{}}}}]"
)
FEW: dict[str, tuple[Callable[[], str], str]] = {
    "documents": (lambda: "---\n" * LINES, "[multi-document]"),
    "lists in lists": (lambda: "[" * LINES, "[too-deep]"),
    "mappings in mappings": (lambda: "{a: " * LINES, "[too-deep]"),
    "lists below lists": (lambda: "- " * LINES, "[too-deep]"),
    "a list of names": (
        lambda: "quotas:\n  - match:\n      user:\n" + numbered("        - u{}\n"),
        f"4:9: error: this entry contains more than {MAX_VALUES:,} values; divide it",
    ),
    "a list of the file": (
        lambda: "x:\n" + "  - a\n" * LINES + "quotas: []\n",
        f"2:3: error: this file contains, besides its entries, more than {MAX_VALUES:,} values; divide it",
    ),
    "a name": (
        lambda: f"quotas:\n  - match: {{user: {'a' * 5_000_000}}}\n    values: {{producer_byte_rate: 1}}\n",
        f"2:19: error: this text has 5,000,000 characters; at most {MAX_CHARACTERS:,} are allowed",
    ),
    "digits": (lambda: f"{ENTRY}    values: {{producer_byte_rate: {'9' * 1_000_000}}}\n", "[too-large]"),
    "digits that fit": (lambda: f"{ENTRY}    values: {{producer_byte_rate: {'9' * MAX_CHARACTERS}}}\n", "[bad-value]"),
    "an exponent": (lambda: f"{ENTRY}    values: {{producer_byte_rate: 1e999999999}}\n", "[bad-value]"),
    "hexadecimal digits": (lambda: f"{ENTRY}    values: {{producer_byte_rate: 0x{'f' * 99_000}}}\n", "[bad-value]"),
    "sexagesimal digits": (lambda: f"{ENTRY}    values: {{producer_byte_rate: {'1:' * 49_000}1}}\n", "[bad-value]"),
    "a key": (lambda: f"{ENTRY}    values: {{{'k' * 1_000_000}: 1}}\n", "[too-large]"),
    "lines of a text": (lambda: f"{ENTRY}    reason: |\n" + "      b\n" * LINES, "[too-large]"),
    "anchors": (
        lambda: "quotas:\n" + numbered("  - &a{} {match: {user: u{}}, values: {producer_byte_rate: 1}}\n", 50_000),
        f"error: the anchors of this file hold more than {MAX_ANCHORED:,} values; use fewer anchors",
    ),
    "merge keys of merge keys": (
        lambda: (
            "a0: &a0 {k0: 1}\n"
            + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 20_000))
        ),
        "[alias-bomb]",
    ),
    "lists that multiply": (
        lambda: CROSS.replace("{}", "{producer_byte_rate: 1}"),
        f"error: this file declares more than {MAX_ENTITIES:,} entities; divide it",
    ),
    "zero bytes": (lambda: "quotas: [\0]\n" * LINES, "[yaml-syntax]"),
    "tabs": (lambda: "\t" * LINES + "quotas: []\n", "[yaml-syntax]"),
}


def findings_of(text: str) -> list[Finding]:
    begin = time.process_time()
    _, findings = conclude([load_file(SourceFile("f.yaml", text), {})], TODAY)
    assert time.process_time() - begin < SECONDS
    return findings


@pytest.mark.parametrize("make_text", MANY.values(), ids=MANY)
def test_of_a_great_many_problems_the_first_hundred_are_shown(make_text: Callable[[], str]) -> None:
    *findings, last = findings_of(make_text())
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    assert len(errors) == MAX_PROBLEMS
    assert last.rule == rule.MORE_PROBLEMS.id
    assert f"only the first {MAX_PROBLEMS} problems are shown" in last.message
    assert max(len(str(finding)) for finding in findings) < 500


@pytest.mark.parametrize(("make_text", "broken"), FEW.values(), ids=FEW)
def test_what_is_too_large_is_one_problem(make_text: Callable[[], str], broken: str) -> None:
    findings = findings_of(make_text())
    assert any(broken in str(finding) for finding in findings)
    assert len(findings) <= 2
    assert max(len(str(finding)) for finding in findings) < 500


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
