"""Guards against a base in git: what a change loosens, and how much it no longer declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planned_repository import CONFIG, MIB, PlannedRepository, own_environment, rate

USERS = {f"u{number}": rate(1) for number in range(9)}


@pytest.fixture
def repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> PlannedRepository:
    """A commit that declares the nine users of a cluster."""
    own_environment(monkeypatch)
    made = PlannedRepository(tmp_path / "repository", capsys)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("quotaform.yaml", CONFIG + "protect: [{user: u0}]\n")
    made.write(".gitignore", "*.json\n")
    made.quotas(**USERS)
    made.commit()
    made.live(**{key: {"producer_byte_rate": MIB} for key in USERS})
    return made


def test_a_change_that_switches_off_its_own_guards_is_blocked(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "guards: {delete: {count: 9, percent: 100}}\n")
    code, out, _ = repository("plan", "--base", "HEAD")
    assert code == 4
    assert (
        "  guards-loosened  quotaform.yaml loosens the guards of the base: guards.delete.count is 9 instead of 5; "
        "guards.delete.percent is 100 instead of 20; protect has no user=u0   Allow: --allow guards-loosened\n" in out
    )
    assert repository("plan", "--base", "HEAD", "--allow", "guards-loosened")[0] == 0
    assert repository("plan", "--no-base")[0] == 0


def test_files_that_lost_most_of_the_base_are_blocked(repository: PlannedRepository) -> None:
    repository.quotas(u0=rate(1))
    code, out, _ = repository("plan", "--base", "HEAD")
    assert code == 4
    assert (
        "  shrink  the files declare 1 entity, the base HEAD 9 (limit: less than half, and 5 fewer)   "
        "Allow: --allow shrink\n" in out
    )
    assert repository("plan", "--base", "HEAD", "--allow", "shrink")[0] == 0
    pruned = repository("plan", "--base", "HEAD", "--prune", "removed", "--allow", "shrink", "--allow", "to-unlimited")
    assert pruned[0] == 4
    assert "  delete  8 of 9 managed entities would be deleted (limit 5, or 20 %, or all)" in pruned[1]
