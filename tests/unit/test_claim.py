"""Several quota repositories for one cluster: no entity may be declared by two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planned_repository import (
    CONFIG,
    PlannedRepository,
    changes,
    findings,
    live_rate,
    own_environment,
    rate,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    own_environment(monkeypatch)


@pytest.fixture
def teams(tmp_path: Path, capsys: Capture) -> tuple[PlannedRepository, PlannedRepository]:
    """Two repositories side by side: the first one lists the second one, and both declare `shared`."""
    one, two = (PlannedRepository(tmp_path / "all" / name, capsys) for name in ("one", "two"))
    for team in (one, two):
        team.write("quotaform.yaml", CONFIG + ("roots: [../two]\n" if team is one else ""))
    one.quotas(a=rate(1), shared=rate(1))
    two.quotas(b=rate(1), shared=rate(2))
    one.live(**dict.fromkeys(("a", "b", "stranger"), live_rate(1)))
    return one, two


Teams = tuple[PlannedRepository, PlannedRepository]

TWICE = (
    "quotas.d/all.yaml:3:5: error: user=shared is declared here and in another quota repository, at "
    "../two/quotas.d/all.yaml:3:5, for the same cluster (lab); declare it in one of them [claimed-twice]\n"
)


def test_a_plan_refuses_what_a_listed_repository_declares_for_the_cluster(teams: Teams) -> None:
    one, two = teams
    for command in ("plan", "drift"):
        code, out, err = one(command)
        assert (code, out, err.startswith(TWICE)) == (3, "", True)
    assert one("validate")[:2] == (3, TWICE + "1 problem found.\n")
    assert two("validate")[0] == 0


def test_what_a_listed_repository_declares_is_neither_pruned_nor_unexpected(teams: Teams) -> None:
    one, _ = teams
    one.quotas(a=rate(1))
    document = one.plan()
    assert {item["address"]: item["in_scope"] for item in document["unmanaged"]} == {
        "user=b": False,
        "user=stranger": True,
    }
    assert document["summary"]["in_scope"] == 2
    one.write("quotaform.yaml", CONFIG + "roots: [../two]\nscope: {include: [{user: '*'}]}\nprune: scope\n")
    assert changes(one.plan()) == {"user=stranger": ("delete", None)}
    drift = one("drift")[1]
    assert ("user=stranger" in drift, "user=b" in drift) == (True, False)


@pytest.mark.parametrize("said", ["state: absent", f"expires: 2020-01-01, {rate(1)}"])
def test_a_tombstone_claims_an_entity_too(teams: Teams, said: str) -> None:
    """It would delete what the other repository declares."""
    one, two = teams
    two.quotas(shared=said)
    assert one("plan")[0] == 3


@pytest.mark.parametrize(
    ("one_id", "one_name", "two_id", "two_name", "code"),
    [
        ("id", "lab", "id", "other", 3),
        ("id", "lab", "another", "lab", 0),
        (None, "lab", None, "lab", 3),
        (None, "lab", None, "other", 0),
        ("id", "lab", None, "lab", 3),
    ],
)
def test_a_cluster_is_the_same_by_its_id_or_else_by_its_name(
    teams: Teams, one_id: str | None, one_name: str, two_id: str | None, two_name: str, code: int
) -> None:
    one, two = teams
    for team, name, pinned in ((one, one_name, one_id), (two, two_name, two_id)):
        field = f", cluster_id: {pinned}" if pinned else ""
        roots = "roots: [../two]\n" if team is one else ""
        team.write("quotaform.yaml", f"clusters: {{{name}: {{snapshot: lab.json{field}}}}}\n{roots}")
    assert one("validate")[0] == code
    if not (one_id is None and two_id == "id"):
        assert one("plan")[0] == code


def test_the_live_id_counts_when_none_is_pinned(teams: Teams) -> None:
    one, two = teams
    two.write("quotaform.yaml", "clusters: {other: {snapshot: lab.json, cluster_id: id}}\n")
    assert one("validate")[0] == 0
    assert one("plan")[0] == 3


def test_several_directories_are_checked_together(teams: Teams, capsys: Capture) -> None:
    one, _ = teams
    above = PlannedRepository(one.path.parent, capsys)
    code, out, _ = above("validate", "two", "one")
    assert code == 3
    assert (
        "one/quotas.d/all.yaml:3:5: error: user=shared is declared here and in another quota repository, at two/" in out
    )
    one.quotas(a=rate(1))
    assert above("validate", "one", "two") == (
        0,
        "Valid: 2 files in one/quotas.d, two/quotas.d, 3 entities for lab.\n",
        "",
    )
    assert above("validate", "one", "two/quotas.d")[0] == 0
    one.write("quotas.d/bad.yaml", "x: 1\n")
    assert above("validate", "one", "two")[0] == 3
    for option in (("--config", "one/quotaform.yaml"), ("--check-principals",)):
        assert above("validate", "one", "two", *option)[0] == 64


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc", "/etc is not within the git work tree, or the directory above that of quotaform.yaml"),
        ("../../outside", "../../outside is not within the git work tree"),
        ("../link", "../link is not within the git work tree"),
        (".", ". is this quota repository; remove it"),
        ("../one/quotas.d", "../one/quotas.d is this quota repository; remove it"),
        ("../gone", "../gone is not a quota repository: it needs a quotas directory, and quotaform.yaml beside it"),
        ("../empty", "../empty is not a quota repository"),
        ("../file", "../file is not a quota repository"),
    ],
)
def test_a_path_that_is_no_other_repository_is_invalid(teams: Teams, tmp_path: Path, path: str, said: str) -> None:
    one, two = teams
    outside = tmp_path / "outside"
    outside.mkdir()
    two.path.rename(outside / "two")
    (one.path.parent / "link").symlink_to(outside / "two")
    (one.path.parent / "empty" / "quotas.d").mkdir(parents=True)
    (one.path.parent / "file").write_text("")
    one.write("quotaform.yaml", CONFIG + f'roots: ["{path}"]\n')
    for command in ("validate", "plan"):
        code, out, err = one(command)
        assert code == 3
        assert f"quotaform.yaml:2:9: error: {said}" in out + err
        assert "[bad-root]" in out + err


def test_a_repository_elsewhere_in_the_work_tree_may_be_listed(teams: Teams, tmp_path: Path, capsys: Capture) -> None:
    one, _ = teams
    PlannedRepository(tmp_path / "all", capsys).git("init", "-q")
    (tmp_path / "all" / "deep" / "er").mkdir(parents=True)
    moved = PlannedRepository(tmp_path / "all" / "deep" / "er" / "one", capsys)
    one.path.rename(moved.path)
    moved.write("quotaform.yaml", CONFIG + "roots: [../../../two]\n")
    assert moved("plan")[0] == 3


def test_invalid_files_of_a_listed_repository_are_an_error(teams: Teams) -> None:
    """Nobody knows what it declares, so nothing may be pruned, and its owner hears of it here first."""
    one, two = teams
    two.write("quotas.d/bad.yaml", "x: 1\n")
    code, _, err = one("plan")
    assert (code, "../two/quotas.d/bad.yaml:1:1: error: " in err) == (3, True)
    two.write("quotaform.yaml", "clusters: 5\n")
    assert "../two/quotaform.yaml:1:11: error: clusters must be a mapping" in one("validate")[1]


def test_a_change_that_drops_another_repository_is_blocked(teams: Teams) -> None:
    """With prune: scope, its entities were destroyed without a finding, as what somebody had made on the cluster."""
    one, two = teams
    config = CONFIG + "scope: {include: [{user: '*'}]}\nprune: scope\n"
    one.quotas(a=rate(1))
    two.quotas(b=rate(1))
    one.live(a=live_rate(1), b=live_rate(1))
    one.git("init", "-q", "-b", "main")
    one.write("quotaform.yaml", config + "roots: [../two/]\n")
    one.commit()
    one.write("quotaform.yaml", config + "roots: [../two]\n")
    assert one("plan", "--base", "HEAD")[0] == 0
    one.write("quotaform.yaml", config)
    document = one.plan("--base", "HEAD")
    assert (list(changes(document)), document["applyable"]) == (["user=b"], False)
    assert findings(document)["guards-loosened"] == (
        "quotaform.yaml loosens the guards of the base: roots has no ../two/ (what it declares counts as undeclared "
        "here)"
    )


def test_the_roots_at_the_base_are_not_read(teams: Teams) -> None:
    one, two = teams
    one.quotas(a=rate(1))
    one.git("init", "-q", "-b", "main")
    one.commit()
    two.write("quotas.d/bad.yaml", "x: 1\n")
    one.write("quotaform.yaml", CONFIG)
    document = one.plan("--base", "HEAD")
    assert (document["source"]["base"]["ref"], list(findings(document))) == ("HEAD", ["guards-loosened"])
