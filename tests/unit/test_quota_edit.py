"""Proposals as changes of quota files that golden files cannot hold, and their plan before these are written."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quotaform.cluster.gateway import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Snapshot, Values
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.repository import Repository
from quotaform.usage.recommend import quota_edit as placement
from quotaform.usage.recommend.quota_edit import EditedFiles, edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Advice, Recommendation
from quotaform.usage.recommend.run import plan_proposals
from tests.builder import PRODUCER

MIB = 2.0**20

DAY = date(2026, 11, 22)

ALICE = Entity(user="alice")

ONE = "clusters: {prod: {bootstrap_servers: [b:9092]}}\n"

TWO = "clusters: {prod: {bootstrap_servers: [b:9092]}, lab: {bootstrap_servers: [l:9092]}}\n"


def update(
    before: float | None = MIB, after: float | None = 12.5 * MIB, *, key: str = PRODUCER, entity: Entity = ALICE
) -> Recommendation:
    """A proposal for prod."""
    action = Advice.DELETE if after is None else Advice.CREATE if before is None else Advice.UPDATE
    reason = "not used for 30 days" if after is None else "p99 of 14 days 8.2 MiB/s x 1.5"
    return Recommendation(
        cluster="prod", entity=entity, key=key, action=action, before=before, after=after, reason=reason
    )


class Files:
    """A quota repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, config: str = ONE, **files: str) -> None:
        (self.folder / "quotas.d").mkdir()
        (self.folder / "quotaform.yaml").write_text(config, encoding="utf-8")
        for name, text in files.items():
            path = self.folder / "quotas.d" / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())

    def edit(self, *proposals: Recommendation, live: Values | None = None) -> EditedFiles:
        repository = Repository.at(self.folder / "quotas.d", None)
        held = {name: {each.entity: live or {} for each in proposals} for name in ("prod", "lab")}
        return edit_quotas(repository, repository.config(), proposals, held, DAY)

    def written(self, *proposals: Recommendation, live: Values | None = None) -> str:
        """The one file that is changed."""
        edited = self.edit(*proposals, live=live)
        assert not edited.unwritten
        write_quotas(edited)
        (file,) = edited.files
        return file.path.read_bytes().decode()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_entries_in_braces_are_formatted_and_line_ends_and_marks_are_kept(files: Files) -> None:
    text = (
        "\ufeffquotas:\r\n"
        "- {match: {user: alice}, values: {consumer_byte_rate: 2MiB/s, producer_byte_rate: 1MiB/s}} # all\r\n"
        "- match: {user: bob}\r\n  values: {producer_byte_rate: 1MiB/s}"
    )
    files.write(a=text)
    bob = update(entity=Entity(user="bob"))
    reason = 'reason: "p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"'
    assert files.written(update(), bob).split("\r\n") == [
        "\ufeffquotas:",
        "  # all",
        "  - match: {user: alice}",
        "    values: {producer_byte_rate: 12.5MiB/s, consumer_byte_rate: 2MiB/s}",
        f"    {reason}",
        "",
        "  - match: {user: bob}",
        "    values: {producer_byte_rate: 12.5MiB/s}",
        f"    {reason}",
        "",
    ]


COMMON = "quotas:\n  - match: {user: alice}\n    values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}\n"


def test_what_cannot_be_written_of_one_cluster_does_not_keep_that_of_another_from_being_written(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was not known which change made a file invalid, nothing was written of any cluster."""
    files.write(TWO, prod__a=COMMON, lab__a=COMMON)
    right = placement.file_value
    monkeypatch.setattr(placement, "file_value", lambda *given: right(*given) if given[1] == 9 * MIB else "-1")
    edited = files.edit(update(), replace(update(after=9 * MIB), cluster="lab"))
    assert [(each.cluster, each.reason) for each in edited.unwritten] == [
        ("prod", "its entry cannot be changed without changing others")
    ]
    assert [file.name.endswith("lab/a.yaml") for file in edited.files] == [True]


def test_what_does_not_read_back_as_proposed_is_not_written(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever the changes of text do, the result is read again.
    files.write(a=COMMON + COMMON.partition("\n")[2].replace("alice", "bob"))
    right = placement.file_value
    monkeypatch.setattr(placement, "file_value", lambda *given: "1KiB/s" if given[1] == 9 * MIB else right(*given))
    edited = files.edit(update(after=9 * MIB), update(entity=Entity(user="bob")))
    assert [(each.entity, each.reason) for each in edited.unwritten] == [
        (ALICE, "its entry cannot be changed without changing others")
    ]
    (file,) = edited.files
    assert file.after.count("12.5MiB/s") == 1
    monkeypatch.setattr(placement, "file_value", lambda *_: "-1")
    assert not files.edit(update(), update(entity=Entity(user="bob"))).files


def test_all_files_are_written_or_none(files: Files) -> None:
    files.write(a=COMMON, b=COMMON.replace("alice", "bob"))
    edited = files.edit(update(), update(entity=Entity(user="bob")))
    first, second = (file.path for file in edited.files)
    second.unlink()
    second.mkdir()
    with pytest.raises(QuotaformError, match="is a directory"):
        write_quotas(edited)
    assert first.read_text() == COMMON


LIVE: dict[Entity, Values] = {
    Entity(user=name): {PRODUCER: value * MIB} for name, value in (("alice", 1), ("bob", 2), ("gone", 3), ("odd", 4))
}
FILE = "quotas:\n" + "".join(
    f"  - match: {{user: {name}}}\n    values: {{producer_byte_rate: {value}MiB/s}}\n"
    for name, value in (("alice", 1), ("gone", 3), ("bob", 7), ("odd", 5))
)


def proposal(name: str, after: float | None, cluster: str = "prod") -> Recommendation:
    entity = Entity(user=name)
    before = LIVE.get(entity, {}).get(PRODUCER)
    action = Advice.CREATE if before is None else Advice.DELETE if after is None else Advice.UPDATE
    return Recommendation(
        cluster=cluster, entity=entity, key=PRODUCER, action=action, before=before, after=after, reason="p99 of 14 days"
    )


Proposed = tuple[list[Plan], int, list[ClusterOutcome[Any]]]
"""What `plan_proposals` returns."""


def planned(folder: Path, *proposals: Recommendation, text: str = FILE) -> tuple[Proposed, list[Plan]]:
    """The plans of proposals, and those that plan makes once they are written."""
    config = "".join(f"  {name}: {{snapshot: {name}.json}}\n" for name in ("prod", "lab"))
    (folder / "quotaform.yaml").write_text(f"clusters:\n{config}")
    for name in ("prod", "lab"):
        taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T00:00:00Z", quotas=LIVE)
        (folder / f"{name}.json").write_text(dump_snapshot(taken))
    (folder / "quotas.d").mkdir()
    (folder / "quotas.d/a.yaml").write_text(text)
    repository = Repository.at(folder, None)
    read = repository.config()
    clusters = tuple(read.clusters.values())
    edited = edit_quotas(repository, read, proposals, {}, date(2026, 11, 22))
    found = plan_proposals(repository, read, clusters, proposals, edited)
    assert not (folder / "quotas.d/prod").exists()
    write_quotas(edited)
    request = PlanRequest(repository=repository, config=read, clusters=clusters, has_lints=False, is_guarded=False)
    return found, [outcome.require() for outcome in plan(request)]


def rows(plan: Plan) -> dict[str, tuple[float | None, float | None]]:
    return {row.entity.address: (row.before, row.after) for row in plan.rows}


def test_the_plan_is_that_of_the_written_files(tmp_path: Path) -> None:
    text = FILE.replace("7MiB", "2MiB").replace("5MiB", "4MiB")
    ([made], others, _), (prod, lab) = planned(
        tmp_path, proposal("alice", 3 * MIB), proposal("gone", None), proposal("new", MIB), text=text
    )
    assert (made.plan_id, made.header.cluster.name, others) == (prod.plan_id, "prod", 0)
    assert rows(made) == {
        "user=alice": (MIB, 3 * MIB),
        "user=gone": (3 * MIB, None),
        "user=new": (None, MIB),
    }
    assert made.actual == LIVE
    assert not lab.rows


def test_other_changes_of_the_files_are_left_out_and_counted(tmp_path: Path) -> None:
    refused = proposal("odd", 9 * MIB)
    ([made], others, _), (prod, _) = planned(tmp_path, proposal("alice", 3 * MIB), refused)
    assert rows(made) == {"user=alice": (MIB, 3 * MIB)}
    assert not made.is_complete
    assert others == len(prod.changes) - 1 == 2


def test_clusters_whose_proposals_no_file_follows_are_not_planned(tmp_path: Path) -> None:
    found, _ = planned(tmp_path, proposal("odd", 9 * MIB), replace(proposal("bob", MIB), cluster="lab"))
    assert found == ([], 0, [])


def test_a_cluster_that_cannot_be_read_any_more_keeps_no_other_from_being_planned(tmp_path: Path) -> None:
    text = FILE.replace("7MiB", "2MiB")
    (plans, *_), _ = planned(tmp_path, proposal("alice", 3 * MIB), proposal("bob", MIB, "lab"), text=text)
    assert [each.header.cluster.name for each in plans] == ["prod", "lab"]
    repository = Repository.at(tmp_path, None)
    config = repository.config()
    (tmp_path / "lab.json").unlink()
    again = [replace(proposal("gone", None), cluster=name) for name in ("prod", "lab")]
    edited = edit_quotas(repository, config, again, {}, date(2026, 11, 22))
    plans, _, failed = plan_proposals(repository, config, tuple(config.clusters.values()), again, edited)
    assert [each.header.cluster.name for each in plans] == ["prod"]
    assert [outcome.cluster for outcome in failed] == ["lab"]
