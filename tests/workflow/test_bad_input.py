"""Files that are wrong: each mistake with its place, its remedy and the exit code, and nothing written."""

from __future__ import annotations

import json

import pytest

from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow


def entry(match: str, values: str = "producer_byte_rate: 1MiB/s") -> str:
    return f"quotas:\n  - match: {match}\n    values: {{{values}}}\n"


def value(text: str, key: str = "producer_byte_rate") -> str:
    return entry("{user: a}", f"{key}: {text}")


@pytest.mark.parametrize("command", [["plan"], ["apply", "--auto-approve"], ["drift"], ["import"]], ids=" ".join)
def test_all_problems_of_all_files_stop_every_command(
    repository: Repository, cluster: Cluster, command: list[str]
) -> None:
    bad: tuple[str | bytes, ...] = (value("0"), "quotas: [\n", "quotas:\n  - match: {user: é}\n".encode("latin-1"))
    for number, content in enumerate(bad):
        repository.write(f"quotas.d/bad{number:02}.yaml", content)
    repository.quotas("  - match: {user: good}\n    values: {producer_byte_rate: 1MiB/s}\n", "good.yaml")
    seen = repository(*command)
    assert (seen.code, seen.out) == (3, "")
    assert seen.err.rstrip().endswith("problems found; nothing was sent to any cluster.")
    for number in range(len(bad)):
        assert f"bad{number:02}.yaml" in seen.err
    assert cluster.read() == {}
    assert repository.receipts == []


EMPTY_SNAPSHOT = json.dumps(
    {
        "format_version": "1.0",
        "kind": "quotaform.snapshot",
        "cluster": {"name": "lab", "id": "AAAAAAAAAAAAAAAAAAAAAA"},
        "captured_at": "2026-01-01T00:00:00Z",
        "quotas": [],
    }
)


def test_a_directory_must_be_there_and_hold_files(offline: Repository) -> None:
    missing = offline("validate")
    assert missing.code == 3
    assert "quotas.d: error: the quotas directory does not exist" in missing.out
    (offline.path / "quotas.d").mkdir()
    empty = offline("validate")
    assert empty.code == 3
    assert "the quotas directory contains no YAML file" in empty.out
    named = offline("validate", "elsewhere")
    assert named.code == 3
    assert "elsewhere: error: the quotas directory does not exist" in named.out
    a_file = offline.write("file.txt", "x")
    assert "this is a file; give the quotas directory" in offline("validate", a_file.name).out
    offline.write("empty.json", EMPTY_SNAPSHOT)
    drift = offline("drift", "--snapshot", "empty.json")
    assert (drift.code, drift.out) == (3, "")
    assert "the quotas directory contains no YAML file" in drift.err
    planned = offline("plan", "--snapshot", "empty.json")
    assert planned.code == 4
    assert "contains no YAML file" in planned.out
    assert "Allow: --allow empty" in planned.out


def test_without_a_configuration_there_is_no_cluster(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"))
    assert offline("validate").code == 0
    for command in (["plan"], ["apply", "--auto-approve"], ["drift"], ["import"], ["snapshot"]):
        seen = offline(*command)
        assert (seen.code, seen.out) == (64, ""), seen
        assert f"no cluster is given: {offline.path.resolve()}/quotaform.yaml does not exist" in seen.err


@pytest.mark.parametrize(("out", "code"), [("nowhere/plan.json", 1), ("quotas.d", 64), ("json=quotas.d/", 64)])
def test_a_plan_that_cannot_be_written_is_an_error(offline: Repository, out: str, code: int) -> None:
    offline.quotas(entry("{user: a}"))
    offline.write("empty.json", EMPTY_SNAPSHOT)
    seen = offline("plan", "--snapshot", "empty.json", "--out", out)
    assert seen.code == code, seen
    assert out.removeprefix("json=").rstrip("/") in seen.err
    assert not (offline.path / "nowhere").exists()
