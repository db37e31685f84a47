"""What files are compared with: names of revisions, clones, events of a CI system; `story-base.txt` has the rest."""

from __future__ import annotations

import json
from pathlib import Path
from threading import enumerate as enumerate_threads

import pytest

from tests.planned_repository import CONFIG, PlannedRepository, findings, own_environment, rate

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def repository(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> PlannedRepository:
    """Files that declare a user, and a cluster without quotas."""
    own_environment(monkeypatch)
    made = PlannedRepository(tmp_path / "repository", capsys)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("quotaform.yaml", CONFIG)
    made.write(".gitignore", "*.json\n")
    made.quotas(a=rate(1))
    made.commit()
    made.live()
    return made


@pytest.mark.parametrize("ref", [" ", "-x", "--help", "a\nb", "a\0b", "\x1b[31m", "x" * 1001, "\ud800"])
def test_what_cannot_name_a_revision_is_wrong_usage(repository: PlannedRepository, ref: str) -> None:
    code, out, err = repository("plan", f"--base={ref}")
    assert (code, out) == (64, "")
    assert "is not the name of a git revision" in err
    assert "\x1b" not in err


def test_no_thread_waits_for_a_base_that_does_not_exist(repository: PlannedRepository) -> None:
    """In a process that goes on, such as a watch, they would pile up."""
    before = set(enumerate_threads())
    repository("plan", "--base", "mian")
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_a_shallow_clone_says_how_to_fetch_the_base(
    repository: PlannedRepository, tmp_path: Path, capsys: Capture
) -> None:
    repository.commit()
    clone = PlannedRepository(repository.clone(tmp_path / "clone", "--depth=1").path, capsys)
    clone.live()
    code, _, err = clone("plan", "--base", "HEAD~1")
    assert code == 1
    assert "this is a shallow clone; fetch it (actions/checkout: fetch-depth: 0; git fetch --unshallow)" in err


def pull_request(repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch, **event: object) -> None:
    repository.write("event.json", json.dumps(event))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(repository.path / "event.json"))


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
