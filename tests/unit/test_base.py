"""What the files are compared with: a git revision, named or found in CI, and everything that can be wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import enumerate as enumerate_threads

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

pytestmark = pytest.mark.slow

SUCH_AS_MAIN = "fetch it, or give another one, such as main"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    own_environment(monkeypatch)


@pytest.fixture
def repository(tmp_path: Path, capsys: Capture) -> PlannedRepository:
    """Files that declared three users, and a change of one of them that is not committed; another was edited live."""
    made = PlannedRepository(tmp_path / "repository", capsys)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("quotaform.yaml", CONFIG)
    made.write(".gitignore", "*.json\n")
    made.quotas(same=rate(1), files=rate(1), cluster=rate(1), both=rate(1))
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    made.quotas(same=rate(1), files=rate(2), cluster=rate(1), both=rate(3), new=rate(1))
    made.live(same=live_rate(1), files=live_rate(1), cluster=live_rate(5), both=live_rate(5))
    return made


ORIGINS = {
    "user=both": ("update", "both"),
    "user=cluster": ("update", "drift"),
    "user=files": ("update", "config"),
    "user=new": ("create", "config"),
}


@pytest.mark.parametrize("ref", ["main", "HEAD", "v1", "{commit}", "{short}", "main^{{commit}}", "HEAD@{{0}}"])
def test_a_base_is_any_name_of_a_commit(repository: PlannedRepository, ref: str) -> None:
    repository.git("tag", "-a", "v1", "-m", "annotated")
    commit = repository.git("rev-parse", "HEAD")
    given = ref.format(commit=commit, short=commit[:8])
    document = repository.plan("--base", given)
    assert document["source"]["base"] == {"ref": given, "commit": commit}
    assert changes(document) == ORIGINS
    assert (document["summary"]["drift"], document["summary"]["both"]) == (1, 1)


def test_an_earlier_commit_is_a_base_although_the_work_tree_is_at_another(repository: PlannedRepository) -> None:
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "second")
    assert changes(repository.plan("--base", "HEAD~1")) == ORIGINS
    assert {origin for _, origin in changes(repository.plan("--base", "HEAD")).values()} == {"drift"}
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("ref", [" ", "-x", "--help", "a\nb", "a\0b", "\x1b[31m", "x" * 1001, "\ud800"])
def test_what_cannot_name_a_revision_is_wrong_usage(repository: PlannedRepository, ref: str) -> None:
    code, out, err = repository("plan", f"--base={ref}")
    assert (code, out) == (64, "")
    assert "is not the name of a git revision" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("ref", "hint"),
    [("mian", "did you mean main?"), ("gone~3", SUCH_AS_MAIN), ("f" * 40, SUCH_AS_MAIN)],
)
def test_a_base_that_does_not_exist_is_an_error(repository: PlannedRepository, ref: str, hint: str) -> None:
    code, out, err = repository("plan", "--base", ref)
    assert (code, out) == (1, "")
    assert err == f"Error: the base {ref} cannot be read: git knows no commit of this name; {hint}\n"


def test_no_thread_waits_for_a_base_that_does_not_exist(repository: PlannedRepository) -> None:
    """In a process that goes on, such as a watch, they would pile up."""
    before = set(enumerate_threads())
    repository("plan", "--base", "mian")
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("ref", ["HEAD:quotas.d", "HEAD:quotas.d/all.yaml", "HEAD^{tree}", "two words"])
def test_what_is_no_commit_is_no_base(repository: PlannedRepository, ref: str) -> None:
    code, _, err = repository("plan", "--base", ref)
    assert (code, "git knows no commit of this name" in err) == (1, True)


def test_the_branch_of_a_remote_is_suggested(repository: PlannedRepository, tmp_path: Path, capsys: Capture) -> None:
    repository.git("branch", "release")
    clone = PlannedRepository(repository.clone(tmp_path / "clone").path, capsys)
    clone.live()
    code, _, err = clone("plan", "--base", "release")
    assert (code, err.endswith("did you mean origin/release?\n")) == (1, True)
    assert clone("plan", "--base", "origin/release")[0] == 0


def test_a_shallow_clone_says_how_to_fetch_the_base(
    repository: PlannedRepository, tmp_path: Path, capsys: Capture
) -> None:
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "second")
    clone = PlannedRepository(repository.clone(tmp_path / "clone", "--depth=1").path, capsys)
    clone.live()
    code, _, err = clone("plan", "--base", "HEAD~1")
    assert code == 1
    assert "this is a shallow clone; fetch it (actions/checkout: fetch-depth: 0; git fetch --unshallow)" in err


def test_a_folder_that_is_no_git_repository_has_no_base(tmp_path: Path, capsys: Capture) -> None:
    plain = PlannedRepository(tmp_path / "plain", capsys)
    plain.write("quotaform.yaml", CONFIG)
    plain.quotas(a=rate(1))
    plain.live()
    code, _, err = plain("plan", "--base", "main")
    assert (code, err) == (1, "Error: the base main cannot be read: quotas.d is not in a git work tree\n")


def test_no_git_command_is_an_error_when_somebody_gave_a_base(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    code, _, err = repository("plan", "--base", "main")
    assert (code, "no git command was found on the PATH; install git" in err) == (1, True)


def test_a_file_that_was_renamed_is_no_change(repository: PlannedRepository) -> None:
    before = changes(repository.plan("--base", "main"))
    (repository.path / "quotas.d" / "all.yaml").rename(repository.path / "quotas.d" / "renamed.yaml")
    assert changes(repository.plan("--base", "main")) == before


def test_a_quotas_directory_that_was_elsewhere_declared_nothing(repository: PlannedRepository) -> None:
    repository.git("mv", "quotas.d", "old.d")
    repository.git("commit", "-q", "-m", "moved")
    (repository.path / "old.d").rename(repository.path / "quotas.d")
    document = repository.plan("--base", "main")
    assert {origin for _, origin in changes(document).values()} == {"config"}
    assert findings(document)["base-empty"] == (
        "the base main declares nothing for this cluster: quotas.d has no quotas there; everything counts as new"
    )


def test_a_cluster_that_is_new_was_not_declared(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", "clusters: {lab: {snapshot: lab.json}, prod: {snapshot: lab.json}}\n")
    document = repository.plan("--base", "main", "--cluster", "prod")
    assert {origin for _, origin in changes(document).values()} == {"config"}
    assert "cluster prod is not in quotaform.yaml there" in findings(document)["base-empty"]
    assert changes(repository.plan("--base", "main", "--cluster", "lab")) == ORIGINS


def test_what_was_merged_into_the_base_meanwhile_is_not_undone_as_this_change(repository: PlannedRepository) -> None:
    """A branch that was behind its base deleted what the base had gained, as "removed in this change"."""
    repository.write("quotaform.yaml", CONFIG + "prune: removed\n")
    repository.quotas(a=rate(1))
    fork = repository.commit()
    repository.git("checkout", "-q", "-b", "change")
    repository.quotas(a=rate(1), mine=rate(3))
    repository.commit()
    repository.git("checkout", "-q", "-b", "merged", fork)
    repository.quotas(a=rate(2), new=rate(2))
    merged = repository.commit()
    repository.live(a=live_rate(2), new=live_rate(2))
    repository.git("checkout", "-q", "change")
    document = repository.plan("--base", "merged")
    assert changes(document) == {"user=a": ("update", "drift"), "user=mine": ("create", "config")}
    said = findings(document)["base-not-contained"]
    assert said.startswith(f"the commit that is checked out does not contain merged ({merged[:7]})")
    assert f"compared with {fork[:7]}, where both parted" in said
    repository.git("merge", "-q", "-X", "ours", "merged")
    assert "base-not-contained" not in findings(repository.plan("--base", "merged"))


def test_an_older_commit_that_is_checked_out_takes_nothing_back_as_this_change(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "prune: removed\n")
    repository.quotas(a=rate(1))
    old = repository.commit()
    repository.quotas(a=rate(2), new=rate(2))
    newer = repository.commit()
    repository.live(a=live_rate(2), new=live_rate(2))
    repository.git("checkout", "-q", old)
    assert changes(repository.plan("--base", newer)) == {"user=a": ("update", "drift")}


def test_a_cluster_that_is_removed_from_the_configuration_is_named(repository: PlannedRepository) -> None:
    """Without its line in quotaform.yaml and its directory, a cluster was left alone without a word."""
    repository.write("quotaform.yaml", "clusters: {lab: {snapshot: lab.json}, prod: {snapshot: lab.json}}\n")
    repository.quotas("prod/own.yaml", only_there=rate(2))
    repository.commit()
    repository.write("quotaform.yaml", CONFIG)
    (repository.path / "quotas.d" / "prod" / "own.yaml").unlink()
    (repository.path / "quotas.d" / "prod").rmdir()
    said = findings(repository.plan("--base", "HEAD"))["cluster-removed"]
    assert said.startswith("cluster prod is not in quotaform.yaml any more; the base HEAD declares ")
    assert said.endswith(" entities for it, and its quotas stay as they are")


def test_the_profiles_are_those_of_the_base(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "profiles: {gold: {producer_byte_rate: 1MiB/s}}\n")
    repository.quotas(by_profile="profile: gold", same=rate(1))
    repository.commit()
    repository.write("quotaform.yaml", CONFIG + "profiles: {gold: {producer_byte_rate: 2MiB/s}}\n")
    repository.live(by_profile=live_rate(1), same=live_rate(1))
    assert changes(repository.plan("--base", "HEAD")) == {"user=by_profile": ("update", "config")}


def test_layers_of_the_base_are_merged(repository: PlannedRepository) -> None:
    repository.quotas(a=rate(1))
    repository.quotas("lab/own.yaml", a=rate(2))
    repository.commit()
    repository.quotas("lab/own.yaml", a=rate(3))
    repository.live(a=live_rate(2))
    assert changes(repository.plan("--base", "HEAD")) == {"user=a": ("update", "config")}


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda made: made.write("quotas.d/bad.yaml", "quotas: [{match: {user: 7}}]\n"), "quotas.d/bad.yaml:1:10: "),
        (lambda made: made.write("quotaform.yaml", "clusters: 5\n"), "quotaform.yaml:1:11: clusters must be a mapping"),
        (lambda made: made.write("quotas.d/all.yaml", "quotas: [\n"), "quotas.d/all.yaml:2:1: not valid YAML"),
        (lambda made: (made.path / "quotas.d" / "out.yaml").symlink_to("/etc/passwd"), "quotas.d/out.yaml: cannot be"),
    ],
)
def test_invalid_files_at_the_base_are_a_warning_and_no_change_has_an_origin(
    repository: PlannedRepository, break_it: Callable[[PlannedRepository], object], said: str
) -> None:
    repository.git("stash", "-q")
    break_it(repository)
    repository.commit()
    repository.git("revert", "--no-edit", "HEAD")
    repository.quotas(a=rate(1))
    document = repository.plan("--base", "HEAD~1")
    assert document["source"]["base"] is None
    assert {origin for _, origin in changes(document).values()} == {None}
    assert findings(document)["base-invalid"].startswith(
        f"the files at HEAD~1 are invalid, so no change has an origin: {said}"
    )
    assert document["applyable"] is (not said.startswith("quotaform.yaml"))
    removed = repository.plan("--base", "HEAD~1", "--prune", "removed")
    assert "the base cannot be used, see above" in findings(removed)["prune-unknown"]
    assert removed["applyable"] is False


def test_a_base_and_no_base_are_wrong_usage(repository: PlannedRepository) -> None:
    assert repository("plan", "--base", "main", "--no-base")[0] == 64
    assert repository("apply", "plan.json", "--base", "main")[0] == 64


def pull_request(repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch, **event: object) -> None:
    repository.write("event.json", json.dumps(event))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(repository.path / "event.json"))


def test_a_pull_request_on_github_is_compared_with_its_target_branch(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    pull_request(repository, monkeypatch)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    code, out, err = repository("plan")
    assert (code, f"Base origin/main @ {repository.git('rev-parse', '--short=7', 'HEAD')}\n" in out) == (0, True)
    assert err == "Base origin/main, from GITHUB_BASE_REF (--base gives another one, --no-base none)\n"
    assert changes(repository.plan()) == ORIGINS
    assert repository.plan("--no-base")["source"]["base"] is None
    assert repository.plan("--base", "HEAD")["source"]["base"]["ref"] == "HEAD"
    assert repository("plan", "--quiet")[2] == ""


def test_a_tag_named_like_the_target_branch_is_not_taken_for_it(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "refs/remotes/origin/main", commit)
    repository.git("commit", "-q", "--allow-empty", "-m", "other")
    repository.git("tag", "origin/main", "HEAD")
    pull_request(repository, monkeypatch)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    assert repository.plan()["source"]["base"] == {"ref": "origin/main", "commit": commit}


@pytest.mark.parametrize(
    ("event", "variables"),
    [
        ({"pull_request": {"base": {"sha": "{commit}"}}}, {"GITHUB_BASE_REF": "main"}),  # It was not fetched.
        ({"before": "{commit}"}, {"GITHUB_EVENT_NAME": "push"}),
        ({"merge_group": {"base_sha": "{commit}"}}, {"GITHUB_EVENT_NAME": "merge_group"}),
    ],
)
def test_the_event_on_github_names_the_commit_of_the_base(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch, event: dict[str, object], variables: dict[str, str]
) -> None:
    commit = repository.git("rev-parse", "HEAD")
    pull_request(repository, monkeypatch, **json.loads(json.dumps(event).replace("{commit}", commit)))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert repository.plan()["source"]["base"] == {"ref": commit, "commit": commit}


WRONG_COMMITS = ("0" * 40, "main", "-x", None, {"a": 1}, "a" * 39, f"{'a' * 40}\n--help", "../../etc/passwd")
WRONG_EVENTS = ("", "[", "[" * 100_000, "5", "{}", '{"before": "' + "a" * 100)


@pytest.mark.parametrize("content", [*(json.dumps({"before": each}) for each in WRONG_COMMITS), *WRONG_EVENTS, None])
def test_a_push_whose_event_names_no_commit_has_no_base(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    pull_request(repository, monkeypatch)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    if content is None:
        monkeypatch.setenv("GITHUB_EVENT_PATH", "/dev/zero")
    else:
        repository.write("event.json", content)
    assert repository.plan()["source"]["base"] is None


@pytest.mark.parametrize("branch", ["-x", "a b", "a..b", "a^{tree}", "x@{1}", "a:b", "\n", "a\\b", "~"])
def test_a_target_branch_that_cannot_be_one_is_not_asked_for(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    pull_request(repository, monkeypatch)
    monkeypatch.setenv("GITHUB_BASE_REF", branch)
    document = repository.plan()
    assert (document["source"]["base"], findings(document)) == (None, {})


def test_merge_requests_and_pushes_on_gitlab_name_a_base(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "refs/remotes/origin/release/1", "HEAD")
    monkeypatch.setenv("GITLAB_CI", "true")
    assert repository.plan()["source"]["base"] is None
    monkeypatch.setenv("CI_COMMIT_BEFORE_SHA", "0" * 40)
    assert repository.plan()["source"]["base"] is None
    monkeypatch.setenv("CI_COMMIT_BEFORE_SHA", commit)
    assert repository.plan()["source"]["base"]["ref"] == commit
    monkeypatch.setenv("CI_COMMIT_BEFORE_SHA", "0" * 40)
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "release/1")
    assert repository.plan()["source"]["base"]["ref"] == "origin/release/1"
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", commit)
    assert repository.plan()["source"]["base"]["ref"] == commit


def test_a_base_of_the_ci_system_that_cannot_be_read_blocks_because_its_guards_are_unknown(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_request(repository, monkeypatch)
    monkeypatch.setenv("GITHUB_BASE_REF", "release")
    document = repository.plan()
    assert findings(document)["base-unreadable"] == (
        "the base origin/release cannot be read: git knows no commit of this name; "
        f"{SUCH_AS_MAIN} (from GITHUB_BASE_REF; --base gives another one, --no-base uses none)"
    )
    assert findings(document)["guards-loosened"].startswith("the guards of the base are not known")
    assert document["applyable"] is False
    assert repository.plan("--allow", "guards-loosened")["applyable"] is True
    assert repository.plan("--no-base")["applyable"] is True
    repository.live(gone=live_rate(1))
    blocked = repository.plan("--prune", "removed")
    assert blocked["applyable"] is False
    assert repository("plan", "--prune", "removed")[0] == 4


def test_a_submodule_and_a_link_out_of_the_commit_are_not_read(repository: PlannedRepository, tmp_path: Path) -> None:
    """A submodule is a commit of another repository, of which this one has no objects."""
    commit = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},quotas.d/other")
    repository.git("commit", "-q", "-m", "submodule")
    assert (
        "quotas.d/other: cannot be read: it is a submodule"
        in findings(repository.plan("--base", "HEAD"))["base-invalid"]
    )
    repository.git("reset", "-q", "--hard", "HEAD~1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository.path / "quotas.d" / "all.yaml").rename(outside / "all.yaml")
    (repository.path / "quotas.d").rmdir()
    (repository.path / "quotas.d").symlink_to(outside)
    repository.commit()
    (repository.path / "quotas.d").unlink()
    repository.quotas(a=rate(1))
    assert "a link that leads out of the commit" in findings(repository.plan("--base", "HEAD"))["base-invalid"]


def test_a_link_within_the_commit_is_followed(repository: PlannedRepository) -> None:
    repository.git("stash", "-q")
    (repository.path / "quotas.d").rename(repository.path / "shared")
    (repository.path / "quotas.d").symlink_to("shared")
    repository.commit()
    document = repository.plan("--base", "HEAD")
    assert {origin for _, origin in changes(document).values()} == {"drift"}
    assert findings(document) == {}
