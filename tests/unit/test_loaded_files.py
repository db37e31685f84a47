"""One quotas directory for many clusters: parsed once, checked for each."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from quotaform.desired.loader import LoadedFiles, load_files
from quotaform.desired.quotas_file import LoadedFile, load_file
from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.scope import FULL_SCOPE
from quotaform.plan.validate import validate_files
from quotaform.repository.repository import Repository

CLUSTERS = "clusters: {lab: {bootstrap_servers: [b:9092]}, prod: {bootstrap_servers: [b:9092]}}\n"
TODAY = date(2026, 12, 31)
COMMON = b"quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1}\n"
PROD = b"quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 2}\n"
GOLD = b"quotas:\n  - match: {user: gold}\n    profile: gold\n"
ESCAPED = b'quotas:\n  - match: {user: escaped}\n    "pro\\x66ile": gold\n'
BAD = b"quotas:\n  - match: {user: 007}\n    values: {producer_byte_rate: 2}\n"


def tree(**more: bytes) -> Tree:
    files = {"a.yaml": COMMON, **{name.replace("__", "/") + ".yaml": text for name, text in more.items()}}
    return Tree(name="quotas.d", files=files, folders=["lab", "prod"])


def test_a_file_is_parsed_once_however_many_clusters_read_it() -> None:
    parsed: list[str] = []

    def load(source: SourceFile) -> LoadedFile:
        parsed.append(source.name)
        return load_file(source, {})

    files = LoadedFiles(Layout(tree(prod__b=PROD), ["prod", "lab"]), load, TODAY, FULL_SCOPE)
    for _ in range(2):
        assert files.desired("prod")[Entity(user="a")].values == {"producer_byte_rate": 2.0}
        assert files.desired("lab")[Entity(user="a")].values == {"producer_byte_rate": 1.0}
    assert parsed == ["quotas.d/a.yaml", "quotas.d/prod/b.yaml"]


def test_when_a_profile_has_changed_the_files_that_may_use_it_are_parsed_again() -> None:
    """An escape can spell any word."""
    layout = Layout(tree(b=GOLD, c=ESCAPED), ["prod", "lab"])
    profiles, changed = {"gold": {"producer_byte_rate": 1.0}}, {"gold": {"producer_byte_rate": 2.0}}
    before = load_files(layout, profiles, TODAY)
    before.desired(None)
    after = load_files(layout, changed, TODAY, similar=(before, profiles))
    assert [after.desired(None)[Entity(user=name)].values for name in ("gold", "escaped")] == [changed["gold"]] * 2
    same = [name for name, parsed in after.parsed.items() if parsed[1] is before.parsed[name][1]]
    assert same == ["quotas.d/a.yaml"]


def test_the_files_of_a_cluster_that_is_released_are_parsed_again_when_it_is_asked_about() -> None:
    files = load_files(Layout(tree(prod__b=PROD), ["prod", "lab"]), {}, TODAY)
    found = files.desired("prod")
    files.release("prod")
    assert list(files.parsed) == ["quotas.d/a.yaml"]
    assert files.desired("prod") == found
    assert list(files.parsed) == ["quotas.d/a.yaml", "quotas.d/prod/b.yaml"]


def test_the_files_of_another_cluster_do_not_count() -> None:
    files = load_files(Layout(tree(prod__b=BAD), ["prod", "lab"]), {}, TODAY)
    assert len(files.desired("lab")) == 1
    with pytest.raises(InvalidFilesError, match="1 problem found"):
        files.desired("prod")


def test_an_unknown_folder_or_an_unreadable_file_hides_no_other_problem() -> None:
    """A dangling link was the only problem that was found, and the next run found the others."""
    found = Tree(
        name="quotas.d",
        files={"a.yaml": COMMON, "c.yaml": BAD},
        folders=["prdo"],
        unreadable={"b.yaml": "No such file"},
    )
    _, findings = load_files(Layout(found, ["prod"]), {}, TODAY).check("prod")
    assert [(str(finding.location), finding.rule) for finding in findings] == [
        ("quotas.d/b.yaml", "unreadable"),
        ("quotas.d/c.yaml:2:19", "bad-name"),
        ("quotas.d/prdo", "unknown-cluster"),
    ]


def test_validate_finds_the_problems_of_all_clusters_once(tmp_path: Path) -> None:
    (tmp_path / "quotaform.yaml").write_text(CLUSTERS)
    for name, text in {"a": BAD, "prod/b": BAD, "lab/team/c": COMMON}.items():
        path = tmp_path / "quotas.d" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    report = validate_files(Repository.at(tmp_path, None)).report
    assert sorted((Path(str(problem.location)).name, problem.rule) for problem in report.problems) == [
        ("a.yaml:2:19", "bad-name"),
        ("b.yaml:2:19", "bad-name"),
        ("team", "nested-directory"),
    ]


def test_validate_warns_of_a_cluster_without_entities_and_of_an_expired_approval(tmp_path: Path) -> None:
    (tmp_path / "quotaform.yaml").write_text(CLUSTERS)
    (tmp_path / "approvals.yaml").write_text(
        "- {rule: protect, address: user=a, reason: less load, approver: alice, expires: 2020-01-01}\n",
        encoding="utf-8",
    )
    (tmp_path / "quotas.d" / "lab").mkdir(parents=True)
    (tmp_path / "quotas.d" / "lab" / "a.yaml").write_bytes(COMMON)
    (tmp_path / "quotas.d" / "b.yaml").write_text("quotas: []\n", encoding="utf-8")
    report = validate_files(Repository.at(tmp_path, None)).report
    assert report.is_valid
    found = {problem.rule: problem for problem in report.problems}
    assert set(found) == {"nothing-declared", "expired-approval", "suspicious-unit"}
    assert found["nothing-declared"].message == (
        "the files declare no entity for cluster prod; if that is meant, plan and apply need --allow empty"
    )
    assert "expired on 2020-01-01" in found["expired-approval"].message
    assert Path(str(found["expired-approval"].location)).name.startswith("approvals.yaml:1:")


def test_a_tree_needs_no_disk() -> None:
    tree = Tree(name="quotas.d", files={"a.yaml": b"a", "prod/b.yaml": b"b"}, folders=["prod", "prdo"])
    layout = Layout(tree, ["prod"])
    assert layout.sources("prod") == [
        SourceFile("quotas.d/a.yaml", b"a"),
        SourceFile("quotas.d/prod/b.yaml", b"b", "prod"),
    ]
    assert [str(problem.location) for problem in layout.problems("prod")] == ["quotas.d/prdo"]
