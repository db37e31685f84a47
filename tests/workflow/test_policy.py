"""Policies as a team has them: in the repository, checked by validate and by plan, lifted by nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.command import run

pytestmark = pytest.mark.workflow

SNAPSHOT = {
    "format_version": "1.0",
    "kind": "quotaform.snapshot",
    "cluster": {"name": "lab", "id": "3JxQ0v7pT2a"},
    "captured_at": "2026-11-20T09:12:44Z",
    "quotas": [],
}
GOOD = "quotas:\n  - match: {user: svc-a}\n    values: {producer_byte_rate: 1MiB/s}\n    owner: team-a\n"
BAD = "quotas:\n  - match: {user: [svc-a, svc-b]}\n    values: {producer_byte_rate: 1MiB/s}\n"
OWNER = {"description": "Every entry has an owner.", "required": ["owner"]}


def write(folder: Path, quotas: str, policy: Any = OWNER, policies: str = "[policies/*.schema.json]") -> Path:
    (folder / "quotas.d").mkdir()
    (folder / "policies").mkdir()
    (folder / "quotas.d/a.yaml").write_text(quotas, encoding="utf-8")
    content = policy if isinstance(policy, str) else json.dumps(policy)
    (folder / "policies/owner.schema.json").write_text(content, encoding="utf-8")
    (folder / "lab.json").write_text(json.dumps(SNAPSHOT), encoding="utf-8")
    config = f"clusters: {{lab: {{snapshot: lab.json}}}}\npolicies: {policies}\n"
    (folder / "quotaform.yaml").write_text(config, encoding="utf-8")
    return folder


REFUSED = "owner is not declared: Every entry has an owner (policies/owner.schema.json); change the entry"


def test_an_entry_that_a_policy_refuses_is_invalid_with_its_place(tmp_path: Path) -> None:
    result = run("validate", cwd=write(tmp_path, BAD))

    assert result.code == 3
    assert result.out.splitlines() == [
        f"quotas.d/a.yaml:2:5: error: user=svc-a: {REFUSED} [policy]",
        f"quotas.d/a.yaml:2:5: error: user=svc-b: {REFUSED} [policy]",
        "2 problems found.",
    ]


def test_a_refused_entry_blocks_the_plan_which_is_printed(tmp_path: Path) -> None:
    write(tmp_path, BAD)

    result = run("plan", "--out", "plan.json", cwd=tmp_path)

    assert result.code == 4
    assert f"  policy  quotas.d/a.yaml:2:5: user=svc-a: {REFUSED}\n" in result.out
    assert result.last == "Plan: 2 to add, 0 to change, 0 to destroy."
    saved = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert not saved["applyable"]
    assert [(each["rule"], each["blocking"], each["override"]) for each in saved["findings"]] == [
        ("policy", True, None)
    ] * 2
    assert run("show", "plan.json", cwd=tmp_path).out.count(REFUSED) == 2


def test_an_unchanged_entry_that_a_policy_refuses_blocks_as_well(tmp_path: Path) -> None:
    write(tmp_path, BAD)
    live = [{"entity": {"user": name}, "values": {"producer_byte_rate": 1048576}} for name in ("svc-a", "svc-b")]
    (tmp_path / "lab.json").write_text(json.dumps(SNAPSHOT | {"quotas": live}), encoding="utf-8")

    result = run("plan", cwd=tmp_path)

    assert result.code == 4
    assert REFUSED in result.out


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_file_that_is_no_policy_is_an_invalid_file(tmp_path: Path, command: str) -> None:
    write(tmp_path, GOOD.replace("1MiB/s", "1MiB"), '{\n  "requird": ["owner"]\n}\n', "[policies/*.json, gone.json]")

    result = run(command, cwd=tmp_path)

    assert result.code == 3
    assert 'policies/owner.schema.json:2:3: error: unknown keyword "requird"; did you mean required?' in result.said
    assert "quotaform.yaml:2:29: error: gone.json does not exist; correct the path, or remove it" in result.said
    assert "quotas.d/a.yaml:3:" in result.said, "all problems of all files are found in one run"


def test_drift_is_not_a_matter_of_policies(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "no JSON")

    assert run("drift", cwd=tmp_path).code == 2


PACK = Path(__file__).parents[2] / "examples/policies"


def declare(folder: Path, name: str, entry: str) -> Path:
    """A repository with one policy of the pack and one entry."""
    write(folder, f"quotas:\n  - {entry}\n", policies=f"[policies/{name}.schema.json]")
    shutil.copy(PACK / f"{name}.schema.json", folder / "policies")
    return folder


MATCH_DEFAULT = "match: {user: <default>, client-id: etl}"


@pytest.mark.parametrize(
    ("name", "accepted", "refused", "said"),
    [
        (
            "caps",
            "{match: {user: svc-orders-api}, values: {producer_byte_rate: 50MiB/s}}",
            "{match: {user: svc-orders-api}, values: {producer_byte_rate: 51MiB/s}}",
            "producer_byte_rate is 51 MiB/s, above the maximum of 50 MiB/s: Users of team orders",
        ),
        (
            "caps",
            "{match: {user: svc-search-1}, values: {request_percentage: 200%}}",
            "{match: {user: svc-search-1}, values: {request_percentage: unlimited}}",
            "request_percentage is unlimited, above the maximum of 200%: Users of team search",
        ),
        (
            "caps",
            "{match: {user: other}, values: {producer_byte_rate: 900MiB/s}}",
            "{match: {user: [svc-orders-b], client-id: <default>}, values: {consumer_byte_rate: 101MiB/s}}",
            "consumer_byte_rate is 101 MiB/s, above the maximum of 100 MiB/s: Users of team orders",
        ),
        (
            "floor",
            "{match: {user: a}, values: {producer_byte_rate: 64KiB/s}}",
            "{match: {user: a}, values: {producer_byte_rate: 10}}",
            "producer_byte_rate is 10 B/s, below the minimum of 64 KiB/s: ",
        ),
        (
            "owner",
            "{match: {user: a}, values: {producer_byte_rate: 1MiB/s}, owner: team-a}",
            "{match: {user: a}, values: {producer_byte_rate: 1MiB/s}}",
            "owner is not declared: Every entry names its owner",
        ),
        (
            "owner",
            "{match: {ip: 10.0.0.1}, values: {connection_creation_rate: 5}, owner: team-b-2}",
            "{match: {user: a}, values: {producer_byte_rate: 1MiB/s}, owner: crew}",
            'owner is "crew", which does not match "^(team-[a-z0-9-]+|platform)$": ',
        ),
        (
            "defaults",
            "{match: {user: <default>}, values: {request_percentage: 200%}}",
            f"{{{MATCH_DEFAULT}, values: {{producer_byte_rate: 1MiB/s}}}}",
            ', not one of "user=<default>": A default',
        ),
        (
            "defaults",
            "{match: {user: alice, client-id: <default>}, values: {producer_byte_rate: 1MiB/s}}",
            "{match: {ip: <default>}, values: {connection_creation_rate: 5}}",
            'address is "ip=<default>", not one of "user=<default>"',
        ),
    ],
)
def test_each_policy_of_the_pack_accepts_and_refuses(
    tmp_path: Path, name: str, accepted: str, refused: str, said: str
) -> None:
    for number, entry in enumerate((accepted, refused)):
        (tmp_path / str(number)).mkdir()
        declare(tmp_path / str(number), name, entry)

    assert run("validate", cwd=tmp_path / "0").code == 0
    result = run("validate", cwd=tmp_path / "1")
    assert result.code == 3
    assert said in result.out


def test_the_entries_of_this_repository_have_owners_as_the_pack_wants_them(tmp_path: Path) -> None:
    """The owner policy refused `platform`, whom the example files name."""
    root = PACK.parents[1]
    shutil.copytree(root / "quotas.d", tmp_path / "quotas.d")
    shutil.copytree(PACK, tmp_path / "policies")
    config = (root / "quotaform.yaml").read_text(encoding="utf-8")
    (tmp_path / "quotaform.yaml").write_text(f"{config}\npolicies: [policies/owner.schema.json]\n", encoding="utf-8")
    result = run("validate", cwd=tmp_path)
    assert result.code == 0, result.out
