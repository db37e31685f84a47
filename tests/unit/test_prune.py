"""Pruning: what is deleted that no file declares, what is left, and what blocks because nobody knows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from quotaform.desired.writable import is_removable
from quotaform.model.entity import Entity
from quotaform.plan.receipt import Receipt
from quotaform.plan.receipt_file import receipt_path, write_receipt
from quotaform.repository.repository import Repository
from tests import builder
from tests.builder import CONNECTION, PRODUCER, plan_of
from tests.dumped import dumped_receipt
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
SCOPED = CONFIG + "scope: {include: [{user: 'svc-*'}], exclude: [{user: svc-legacy}]}\n"


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    own_environment(monkeypatch)


@pytest.fixture
def repository(tmp_path: Path, capsys: Capture) -> PlannedRepository:
    """Files that declared a, b and an absent c, of which b and c were removed; the cluster holds a stranger, too."""
    made = PlannedRepository(tmp_path / "repository", capsys)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("quotaform.yaml", CONFIG + "prune: removed\n")
    made.write(".gitignore", "*.json\n.quotaform/\n")
    made.quotas(a=rate(1), b=f"owner: team-b, {rate(1)}", c="state: absent", d=f"expires: 2020-01-01, {rate(1)}")
    made.commit()
    made.quotas(a=rate(1))
    made.live(**dict.fromkeys(("a", "b", "c", "d", "stranger"), live_rate(1)))
    return made


def test_what_the_base_declares_and_the_files_do_not_is_deleted(repository: PlannedRepository) -> None:
    document = repository.plan("--base", "main")
    assert changes(document) == {"user=b": ("delete", "config")}
    (change,) = document["changes"]
    assert change["reason"] == "removed from quotas.d/all.yaml in this change; was line 3"
    assert (change["owner"], change["cause"], change["location"]) == ("team-b", "undeclared", None)
    assert {item["address"] for item in document["unmanaged"]} == {"user=c", "user=d", "user=stranger"}
    text = repository("plan", "--base", "main")[1]
    assert (
        "  # user=b will be destroyed\n  # (removed from quotas.d/all.yaml in this change; was line 3; owner team-b)"
        in text
    )


def test_without_a_base_and_a_receipt_nothing_is_deleted_and_the_plan_is_blocked(repository: PlannedRepository) -> None:
    code, out, _ = repository("plan")
    assert code == 4
    assert (
        "  prune-unknown  prune=removed, and no file declares 4 live entities in scope; it is not known whether the "
        "files did before: there is no base and no receipt of this cluster; give the git revision that was applied "
        "last: --base REF\n"
    ) in out
    assert repository("plan", "--prune", "report")[0] == 0
    assert repository("apply", "--auto-approve")[0] == 64, "a snapshot is not applied to"
    rmtree(repository.path / ".git")  # It advised a git revision there, too.
    assert (
        "; give the receipt of the last apply (--base RECEIPT), or plan with --prune report\n" in repository("plan")[1]
    )


def test_nothing_is_unknown_when_nothing_could_be_deleted(repository: PlannedRepository) -> None:
    repository.live(a=live_rate(1))
    assert repository("plan")[0] == 0


def test_a_partial_plan_deletes_nothing_and_reports_it(repository: PlannedRepository) -> None:
    for option in (("--select", "user=*"), ("--exclude", "user=a")):
        document = repository.plan("--base", "main", *option)
        assert changes(document) == {}
        assert findings(document)["not-pruned"] == (
            "no file declares 4 live entities in scope, and none is deleted although prune=removed: the plan covers a "
            "part only (--select, --exclude)"
        )
        assert repository.plan(*option)["applyable"] is True


def test_everything_in_scope_that_no_file_declares_is_deleted_only_when_the_scope_is_written(
    repository: PlannedRepository,
) -> None:
    refused = repository("plan", "--prune", "scope")
    assert (refused[0], "[prune-scope]" in refused[2]) == (3, True)
    repository.write("quotaform.yaml", SCOPED + "prune: scope\n")
    repository.quotas(**{"svc-a": rate(1)})
    users = ("svc-a", "svc-b", "svc-legacy", "stranger")
    repository.live(**dict.fromkeys(users, live_rate(1)))
    document = repository.plan()
    assert changes(document) == {"user=svc-b": ("delete", None)}
    assert document["changes"][0]["reason"] == "in scope and not declared; prune=scope"
    switched = repository.plan("--base", "main")
    assert changes(switched) == {"user=svc-b": ("delete", "config")}
    assert switched["changes"][0]["reason"].endswith("prune=scope, by a change of prune or scope")
    repository.commit()
    again = repository("plan", "--base", "HEAD")[1]
    assert "origin: drift, not in this change: the base does not declare it either)" in again
    repository.write("quotaform.yaml", CONFIG + "scope: {include: [{user: '*'}]}\nprune: scope\n")
    assert changes(repository.plan("--base", "HEAD", "--allow", "delete=9")) == {
        "user=stranger": ("delete", "config"),
        "user=svc-b": ("delete", "drift"),
        "user=svc-legacy": ("delete", "config"),
    }
    assert changes(repository.plan("--prune", "report")) == {}


@pytest.mark.parametrize(
    ("entity", "values", "can"),
    [
        (Entity(user="a"), {PRODUCER: 1.0}, True),
        (Entity(user="a"), {PRODUCER: float("nan"), "future_rate": 1.0}, True),
        (Entity(user="a"), {"future_rate": 1.0}, False),
        (Entity(user="a"), {CONNECTION: 1.0}, False),
        (Entity(user="a"), {PRODUCER: 1.0, CONNECTION: 1.0}, False),
        (Entity(user=""), {PRODUCER: 1.0}, False),
        (Entity({"group": "x"}), {PRODUCER: 1.0}, False),
        (Entity(ip="localhost"), {CONNECTION: 1.0}, False),
        (Entity(ip="10.0.0.1"), {CONNECTION: 1.0}, True),
    ],
)
def test_what_cannot_be_removed_is_not_pruned(entity: Entity, values: dict[str, float], can: bool) -> None:
    assert is_removable(entity, values) is can


def test_what_cannot_be_removed_is_left_and_reported(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "scope: {include: [{user: '*'}, {ip: '*'}]}\nprune: scope\n")
    names = [{"user": ""}, {"user": "unknown"}, {"ip": "localhost"}, {"user": "odd"}]
    held = [{"producer_byte_rate": 1}, {"x_rate": 1}, {CONNECTION: 1}, {"producer_byte_rate": "NaN", "x_rate": 2}]
    quotas = [{"entity": name, "values": values} for name, values in zip(names, held, strict=True)]
    snapshot = json.loads((repository.path / "lab.json").read_text())
    repository.write("lab.json", json.dumps({**snapshot, "quotas": quotas}))
    repository.quotas()
    document = repository.plan()
    assert changes(document) == {"user=odd": ("update", None)}
    assert document["changes"][0]["after"] == {"x_rate": 2}
    assert {(item["rule"], item["address"]) for item in document["findings"]} == {
        ("empty-name", 'user=""'),
        ("ip-name", "ip=localhost"),
        ("unknown-key", "user=unknown"),
        ("unknown-key", "user=odd"),
        ("empty", None),
        ("to-unlimited", "user=odd"),
    }


def receipt_of(*declared: str, cluster_id: str = "id") -> Receipt:
    """The receipt of an apply that created the first of some users, which were declared."""
    first, *others = (Entity(user=name) for name in declared)
    plan = plan_of(
        {first: {PRODUCER: 1048576.0}, **{other: {PRODUCER: 1.0} for other in others}},
        {other: {PRODUCER: 1.0} for other in others},
    )
    plan = replace(plan, header=replace(plan.header, cluster_id=cluster_id))
    return builder.receipt_of(plan, started_at="2026-11-20T09:00:00Z", finished_at="2026-11-20T09:00:01Z")


def keep(repository: PlannedRepository, receipt: Receipt, day: int = 20) -> Path:
    place = Repository(directory=repository.path / "quotas.d", config_path=repository.path / "quotaform.yaml")
    path = receipt_path(receipt.plan.digest, place)
    path = path.with_name(f"202611{day}T090000Z-{path.name.partition('-')[2]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_receipt(path, receipt)


def test_without_a_base_the_last_receipt_of_the_cluster_says_what_was_declared(repository: PlannedRepository) -> None:
    keep(repository, receipt_of("a", "b", "stranger"), 19)
    path = keep(repository, receipt_of("a", "b"), 20)
    keep(repository, receipt_of("a", "stranger", cluster_id="another"), 21)
    document = repository.plan()
    assert {finding["rule"] for finding in document["findings"]} == {"to-unlimited"}
    assert changes(document) == {"user=b": ("delete", None)}
    shown = path.relative_to(repository.path)
    assert document["changes"][0]["reason"] == f"removed from the files since the last apply ({shown})"
    assert document["source"]["base"] is None


def test_what_was_declared_and_removed_again_since_the_last_receipt_blocks(repository: PlannedRepository) -> None:
    """It was live as declared, so no receipt knew it, and a plan without a base left it with "No changes"."""
    base = repository.git("rev-parse", "HEAD")
    repository.quotas(a=rate(1))
    applied = repository.commit()
    path = keep(repository, at_commit(receipt_of("a", "c"), base), 19)
    code, out, _ = repository("plan", "--no-base")
    shown = path.relative_to(repository.path)
    assert code == 4
    assert (
        f"prune-unknown  prune=removed, but the last receipt ({shown}) does not declare user=b, removed from the files "
        "since; give the git revision that was applied last: --base REF\n"
    ) in out
    assert changes(repository.plan("--base", base)) == {"user=b": ("delete", "config")}
    keep(repository, at_commit(receipt_of("a"), applied), 20)
    document = repository.plan("--no-base")
    assert ("prune-unknown" in findings(document), "no-longer-declared" in findings(document)) == (False, True)


def at_commit(receipt: Receipt, commit: str) -> Receipt:
    header = replace(receipt.plan.header, source=replace(receipt.plan.header.source, commit=commit))
    return replace(receipt, plan=replace(receipt.plan, header=header))


def test_a_newer_receipt_that_was_edited_blocks(repository: PlannedRepository) -> None:
    keep(repository, receipt_of("a", "b"), 20)
    path = keep(repository, receipt_of("a"), 21)
    path.write_text(path.read_text().replace('"user=a"', '"user=b"'))
    document = repository.plan()
    assert changes(document) == {}
    assert "a newer receipt than" in findings(document)["prune-unknown"]


def test_a_receipt_that_is_committed_does_not_say_what_is_deleted(repository: PlannedRepository) -> None:
    """Whoever opens a pull request could write one; those of an apply are beside the commit."""
    path = keep(repository, receipt_of("a", "stranger"), 21)
    repository.git("add", "-f", str(path))
    repository.git("commit", "-q", "-m", "receipt")
    document = repository.plan()
    assert changes(document) == {}
    assert findings(document)["receipt-ignored"].endswith(
        "it is committed to git; an apply writes its receipts beside the commit"
    )
    assert "there is no base and no receipt" in findings(document)["prune-unknown"]
    keep(repository, receipt_of("a", "b"), 20)
    document = repository.plan()
    assert changes(document) == {"user=b": ("delete", None)}
    assert "receipt-ignored" in findings(document)


def test_a_receipt_of_the_future_does_not_count(repository: PlannedRepository) -> None:
    keep(repository, receipt_of("a", "b"), 20)
    keep(repository, replace(receipt_of("a", "stranger"), finished_at="2999-01-01T00:00:00Z"), 21)
    document = repository.plan()
    assert changes(document) == {"user=b": ("delete", None)}
    assert findings(document)["receipt-ignored"].endswith("it is from the future (2999-01-01T00:00:00Z)")


def test_the_newest_receipt_is_the_one_that_says_so_whatever_its_name(repository: PlannedRepository) -> None:
    keep(repository, replace(receipt_of("a", "b"), finished_at="2026-11-20T10:00:00Z"), 19)
    keep(repository, receipt_of("a", "stranger"), 21)
    assert changes(repository.plan()) == {"user=b": ("delete", None)}


def test_a_receipt_is_a_base(repository: PlannedRepository) -> None:
    repository.write("receipt.json", dumped_receipt(receipt_of("a", "b")))
    repository.quotas(a=rate(2), new=rate(1))
    document = repository.plan("--base", "receipt.json")
    assert document["source"]["base"] == {"ref": "receipt.json", "commit": "4f2c1d9", "receipt": True}
    assert changes(document) == {
        "user=a": ("update", "config"),
        "user=b": ("delete", None),
        "user=new": ("create", "config"),
    }
    assert "   Base receipt.json @ 4f2c1d9\n" in repository("plan", "--base", "receipt.json")[1]


def test_a_receipt_of_another_cluster_is_stale(repository: PlannedRepository) -> None:
    repository.write("receipt.json", dumped_receipt(receipt_of("a", cluster_id="another")))
    code, out, err = repository("plan", "--base", "receipt.json")
    assert (code, out) == (5, "")
    assert "the receipt is of cluster another, but this is cluster id" in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("", "not a valid receipt"),
        ("{}", "is not a receipt"),
        ("[" * 9999, "not a valid receipt"),
    ],
)
def test_a_receipt_that_cannot_be_read_is_no_base(
    repository: PlannedRepository, content: str | None, said: str
) -> None:
    if content is not None:
        repository.write("receipt.json", content)
    code, _, err = repository("plan", "--base", "receipt.json")
    assert (code, err.startswith("Error: the base receipt.json cannot be read: ")) == (1, True)
    assert said in err
