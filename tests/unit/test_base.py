"""What files are compared with: what is no revision, clones, events; `story-base.txt` has the rest."""

from __future__ import annotations

from pathlib import Path
from threading import enumerate as enumerate_threads

import pytest

from tests.planned_repository import CONFIG, PlannedRepository, own_environment, rate

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


def test_an_event_that_is_nested_too_deeply_has_no_base(
    repository: PlannedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("event.json", "[" * 100_000)
    for name, value in (("ACTIONS", "true"), ("EVENT_NAME", "push"), ("EVENT_PATH", f"{repository.path}/event.json")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    assert repository.plan()["source"]["base"] is None
