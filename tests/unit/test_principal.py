"""Users who cannot log in, and `plan --principals`; what is said is in `texts-users.txt` and `story-principals.txt`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from quotaform.cluster.records import ScramCredential, ScramMechanism, ScramUser
from quotaform.desired.config import Cluster
from quotaform.desired.tree import SourceFile
from quotaform.model.errors import ClusterError, UsageError
from quotaform.model.finding import Severity
from quotaform.model.quotas import Desired
from quotaform.plan.blast_radius import CHANGE_COLUMNS, LimitDirection
from quotaform.plan.principals import read_principals
from quotaform.plan.validate import add_user_findings, check_clusters_users, check_users, validate_files
from quotaform.repository.repository import Repository
from tests.loading import load
from tests.markdown import ROOT

CREDENTIAL = ScramCredential(ScramMechanism.SHA_256, 4096)


def declared(users: list[str]) -> Desired:
    entries = "".join(f"  - match: {{user: {user}}}\n    values: {{producer_byte_rate: 1}}\n" for user in users)
    return load([SourceFile("quotas.d/a.yaml", f"quotas:\n{entries}")], {}, date(2026, 11, 20))


def test_a_cluster_that_keeps_no_credentials_gets_a_note_and_no_warnings() -> None:
    (finding,) = check_users("lab", declared(["x", "y"]), set())
    assert (finding.severity, finding.rule) == (Severity.NOTE, "no-scram")
    assert "lab has no SCRAM credentials" in finding.message


def test_very_many_unknown_users_are_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.plan.validate._MOST_COMPARISONS", 5_000)
    known = {f"service-number-{n}" for n in range(1_000)}
    told = [str(each) for each in check_users("lab", declared([f"service-nunber-{n}" for n in range(300)]), known)]
    assert len(told) == 300
    assert sum("did you mean" in each for each in told) == 5


def test_files_that_are_wrong_are_told_before_anybody_is_asked(tmp_path: Path) -> None:
    checked = validate_files(make_repository(tmp_path, "quotas: [{}]\n"))
    assert not checked.report.is_valid
    assert check_clusters_users(checked, [Cluster(name="x", bootstrap_servers=("127.0.0.1:1",))]) == ()


def make_repository(folder: Path, quotas: str = "quotas: []\n", config: str = "{}") -> Repository:
    (folder / "quotaform.yaml").write_text(f"clusters: {config}\n")
    (folder / "quotas.d").mkdir()
    (folder / "quotas.d" / "a.yaml").write_text(quotas)
    return Repository.at(folder, None)


class Users:
    """A cluster that keeps credentials of some users."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> list[ScramUser]:
        return [ScramUser(user=name, credentials=(CREDENTIAL,)) for name in self.names]

    def close(self) -> None:
        pass


def test_a_cluster_that_is_down_hides_no_other(tmp_path: Path) -> None:
    """Clusters were asked one by one, and the first that was down was the end of it; files were parsed again."""
    quotas = "quotas:\n  - match: {user: svc}\n    values: {producer_byte_rate: 1MiB/s}\n"
    down = ClusterError("down")

    def connect(cluster: Cluster) -> Any:
        if cluster.name == "down":
            raise down
        return Users("svc" if cluster.name == "good" else "other")

    checked = validate_files(make_repository(tmp_path, quotas))
    clusters = [Cluster(name=name) for name in ("down", "good", "bad")]
    outcomes = check_clusters_users(checked, clusters, connect=connect)
    assert [(outcome.cluster, outcome.error) for outcome in outcomes] == [("down", down), ("good", None), ("bad", None)]
    report = add_user_findings(checked.report, outcomes)
    assert [problem.message for problem in report.problems] == ["user svc has no SCRAM credentials on bad"]


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        ("people.parquet", {"files": {"eu": "eu.csv"}}, "give principals_out parquet=DIR"),
        ("clients.csv", {"folder": "changed"}, "parquet=DIR is for a table of principals"),
    ],
)
def test_all_changes_are_text_for_a_list_and_parquet_for_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: dict[str, Any], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clients.csv").write_text("user\nsvc-orders\n")
    with pytest.raises(UsageError, match=problem):
        read_principals(text, **more, on_spark=True)


def test_the_example_of_the_page_is_what_is_printed() -> None:
    page = (ROOT / "docs" / "blast-radius.md").read_text(encoding="utf-8")
    shown = page[page.index("Blast radius: ") : page.index("\n...\nPlan: ")]
    assert indent(shown, "  ") in (ROOT / "tests/golden/story-principals.txt").read_text(encoding="utf-8")
    assert all(f"`{column}`" in page for column in CHANGE_COLUMNS)
    assert all(f"| `{direction}` |" in page for direction in LimitDirection)
