"""Files of any size, number and shape: what is looked for and shown is bounded, and so is the time.

A million bad lines took minutes, a gigabyte of memory and 28 MB of output. All files were parsed however many problems
there were, each pattern was held against each entity, and quotaform.yaml could name any number of clusters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from quotaform.cluster.gateway import load_snapshot
from quotaform.desired.config import Config, choose_clusters, read_config
from quotaform.desired.loader import LoadedFiles, conclude, load_file
from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.records.document import MOST_VALUES
from quotaform.model.rule import MAX_PROBLEMS, FindingList, first_findings
from quotaform.model.scope import MOST_PATTERNS, Pattern, Scope, Selection, count_problem
from quotaform.plan.validate import validate_files
from quotaform.repository.repository import Repository
from quotaform.resolve import request_file
from quotaform.resolve.request_file import RequestFile
from tests.golden.conftest import Golden, golden
from tests.golden.table import check_told

pytestmark = pytest.mark.exhaustive
__all__ = ["golden"]

TODAY = date(2026, 6, 1)


def loaded(files: dict[str, str], clusters: tuple[str, ...] = ()) -> LoadedFiles:
    layout = Layout(Tree(name="q", files={name: text.encode() for name, text in files.items()}), clusters)
    return LoadedFiles(layout, {}, TODAY)


def test_of_many_files_the_first_hundred_problems_are_shown(golden: Golden) -> None:
    """Fifty thousand files were parsed to show a hundred problems."""

    def of_files(expression: str) -> Iterator[str]:
        files = loaded(eval(expression))  # noqa: S307 (our own)
        assert sum(len(file.problems) for file in files.files(None)) < 3 * MAX_PROBLEMS
        found = [str(each) for each in files.check(None)[1]]
        yield from (*found[:3], f"... {len(found) - 5} more ...", *found[-2:], f"files parsed: {len(files.parsed)}")

    check_told(golden, "many-files.txt", of_files)


def test_the_problems_of_common_files_leave_no_room_for_those_of_a_cluster() -> None:
    common = {"a.yaml": "quotas:\n" + "  - x\n" * 200}
    files = loaded({**common, "prod/a.yaml": "quotas: [x]\n", "test/a.yaml": "quotas: [x]\n"}, ("prod", "test"))
    for cluster in ("prod", "test"):
        assert len(files.check(cluster)[1]) == MAX_PROBLEMS + 1
    assert list(files.parsed) == ["q/a.yaml"]


def test_all_clusters_together_show_a_hundred_problems(tmp_path: Path) -> None:
    """Each cluster showed a hundred of its own."""
    names = [f"c{number}" for number in range(5)]
    (tmp_path / "quotaform.yaml").write_text(
        "clusters:\n" + "".join(f"  {name}: {{snapshot: s.json}}\n" for name in names)
    )
    for name in names:
        (tmp_path / "quotas.d" / name).mkdir(parents=True)
        (tmp_path / "quotas.d" / name / "a.yaml").write_text("quotas:\n" + "  - x\n" * 60)
    report = validate_files(Repository.at(tmp_path, None)).report
    assert len(report.problems) == MAX_PROBLEMS + 1
    assert report.problems[-1].rule == rule.MORE_PROBLEMS.id


def test_of_many_bad_clusters_the_first_by_line_are_shown() -> None:
    """The schema takes the clusters in any order, so that any hundred were shown."""
    text = "clusters:\n" + "".join(f"  c{number}: x\n" for number in range(1000))
    _, findings = read_config(SourceFile("f.yaml", text), Path())
    assert [finding.location.line for finding in findings if finding.location] == list(range(2, MAX_PROBLEMS + 2))


def test_quotaform_yaml_and_the_layout_of_files_take_ten_thousand_clusters() -> None:
    """A thousand were allowed; and each cluster looked through the folders of all others."""
    names = [f"cluster-{number:05}" for number in range(10_000)]
    text = "".join(
        f"  {name}:\n    bootstrap_servers: [b1.{name}:9092, b2.{name}:9092, b3.{name}:9092]\n"
        f"    command_config: secrets/{name}.properties\n    cluster_id: id-{name}\n    confirm: name\n"
        for name in names
    )
    begin = time.process_time()
    found, findings = read_config(SourceFile("f.yaml", f"clusters:\n{text}"), Path())
    assert (findings, list(found.clusters)) == ([], names)
    assert len(choose_clusters(found, ["cluster-0*", names[-1]])) == 10_000
    assert len(choose_clusters(found, [], takes_all=True)) == 10_000
    assert time.process_time() - begin < 30
    begin = time.process_time()
    layout = Layout(Tree(name="q", folders=names, files={f"{name}/a.yaml": b"quotas: []" for name in names}), names)
    assert not any(layout.problems(name) for name in names)
    assert time.process_time() - begin < 10


def test_a_thousand_patterns_take_hardly_longer_than_one() -> None:
    """Each pattern was held against each entity, and beyond 4,096 each was compiled anew for each entity."""
    include = tuple(Pattern((("user", f"x{number}-*"), ("client-id", "?"))) for number in range(MOST_PATTERNS - 1))
    scope = Scope(include=(*include, Pattern((("user", "u*"),))))
    selection = Selection([f"user=x{number}*" for number in range(MOST_PATTERNS - 1)] + ["user=u*"])
    entities = [Entity(user=f"u{number}") for number in range(5000)]
    begin = time.process_time()
    assert all(map(scope.contains, entities))
    assert all(map(selection.contains, entities))
    assert len(selection.without_match(entities)) == MOST_PATTERNS - 1
    assert time.process_time() - begin < 20


def test_patterns_on_the_command_line_are_limited_in_number() -> None:
    assert count_problem(["a"] * MOST_PATTERNS) is None
    assert count_problem(["a"] * 10_000) == "at most 1,000 patterns are allowed, and these are 10,000"
    with pytest.raises(UsageError, match="cluster: at most 1,000 patterns are allowed"):
        choose_clusters(Config(), ["a*"] * 10_000)


def test_a_layout_with_very_many_problems_returns_some() -> None:
    folders = [f"folder{number}" for number in range(50_000)]
    layout = Layout(Tree(name="q", folders=folders, files={"a.yaml": b"quotas: []"}), [f"c{n}" for n in range(100)])
    begin = time.process_time()
    findings = LoadedFiles(layout, {}, TODAY).check("c1")[1]
    assert time.process_time() - begin < 30
    assert len(findings) == MAX_PROBLEMS + 1


SNAPSHOT_START = (
    '{"kind":"quotaform.snapshot","format_version":"1.0","cluster":{"name":"a","id":"b"},"captured_at":"c","quotas":['
)


@pytest.mark.parametrize("value", ["[]", "7", '{"entity":7}'])
def test_a_snapshot_of_very_many_values_is_refused_before_it_is_parsed(value: str) -> None:
    """30 million lists took all memory, which was an internal error."""
    begin = time.process_time()
    with pytest.raises(InvalidFilesError) as caught:
        load_snapshot(SNAPSHOT_START + f"{value}," * MOST_VALUES + "7]}", "s.json")
    assert time.process_time() - begin < 20
    (problem,) = caught.value.problems
    assert f"it contains more than {MOST_VALUES:,} values" in problem.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user," * 200, "r:1: error: this is not CSV: it has more than "),
        ('user,client_id\na,b\n"' + "a\n" * 100, "r:3: error: this is not CSV: it has more than "),
        (
            '{"user": "a"}\n{"user": [' + "[]," * 100,
            "r:2: error: this is not a JSON object on a line of its own: it has",
        ),
    ],
)
def test_a_row_of_a_request_file_is_limited(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million columns, or a JSON list on one line, took a gigabyte."""
    monkeypatch.setattr(request_file, "LONGEST_ROW", 100)
    with pytest.raises(InvalidFilesError) as caught:
        RequestFile(text.encode(), "r")
    assert [str(finding).startswith(said) for finding in caught.value.problems] == [True]


def test_rows_together_may_be_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_file, "LONGEST_ROW", 30)
    assert len(RequestFile(b"\xef\xbb\xbfuser\r\n" + b"alice\r\n" * 50, "r")) == 50
    assert len(RequestFile(b'{"user": "alice"}\r' * 50, "r")) == 50


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
    assert entry.provenances()["producer_byte_rate"].line == 2502
    if anchored:
        assert file.entries[-1].provenances()["producer_byte_rate"] == Location("f.yaml", 2, 41)
