"""What files are compared with: what is no revision; `story-base.txt` has the rest."""

from __future__ import annotations

from pathlib import Path
from threading import enumerate as enumerate_threads

import pytest

from quotaform.cli.main import run
from quotaform.model.errors import UsageError
from quotaform.plan.base import require_ref
from tests.git_repository import GitRepository


@pytest.mark.parametrize("ref", ["a\nb", "a\0b", "\x1b[31m", "x" * 1001, "\ud800"])
def test_what_cannot_name_a_revision_is_wrong_usage(ref: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a git revision") as refused:
        require_ref(ref)
    assert str(refused.value).isprintable()


@pytest.mark.slow
def test_no_thread_waits_for_a_base_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that goes on, such as a watch, they would pile up."""
    made = GitRepository.init(tmp_path / "files")
    made.write("quotaform.yaml", "clusters: {lab: {snapshot: lab.json}}\n")
    made.declare("all.yaml", "a")
    made.commit()
    monkeypatch.chdir(made.path)
    before = set(enumerate_threads())
    assert run(["plan", "--base", "mian"]) == 1
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
        assert not thread.is_alive()
