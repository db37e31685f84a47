"""The plan of proposals before their files are written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from msgspec.structs import replace

from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot, Values
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.quota_edit import edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Action, Recommendation
from quotaform.usage.recommend.run import ProposedPlans, plan_proposals
from tests.builder import PRODUCER

MIB = 2.0**20
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
    action = Action.CREATE if before is None else Action.DELETE if after is None else Action.UPDATE
    return Recommendation(
        cluster=cluster, entity=entity, key=PRODUCER, action=action, before=before, after=after, reason="p99 of 14 days"
    )


def planned(folder: Path, *proposals: Recommendation, text: str = FILE) -> tuple[ProposedPlans, list[Plan]]:
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
    found, (prod, lab) = planned(
        tmp_path, proposal("alice", 3 * MIB), proposal("gone", None), proposal("new", MIB), text=text
    )
    (made,) = found.plans
    assert (made.plan_id, made.header.cluster_name, found.others) == (prod.plan_id, "prod", 0)
    assert rows(made) == {
        "user=alice": (MIB, 3 * MIB),
        "user=gone": (3 * MIB, None),
        "user=new": (None, MIB),
    }
    assert made.actual == LIVE
    assert not lab.rows


def test_other_changes_of_the_files_are_left_out_and_counted(tmp_path: Path) -> None:
    refused = proposal("odd", 9 * MIB)
    found, (prod, _) = planned(tmp_path, proposal("alice", 3 * MIB), refused)
    (made,) = found.plans
    assert rows(made) == {"user=alice": (MIB, 3 * MIB)}
    assert not made.is_complete
    assert found.others == len(prod.changes) - 1 == 2


def test_clusters_whose_proposals_no_file_follows_are_not_planned(tmp_path: Path) -> None:
    found, _ = planned(tmp_path, proposal("odd", 9 * MIB), replace(proposal("bob", MIB), cluster="lab"))
    assert found == ProposedPlans()


def test_a_cluster_that_cannot_be_read_any_more_keeps_no_other_from_being_planned(tmp_path: Path) -> None:
    text = FILE.replace("7MiB", "2MiB")
    found, _ = planned(tmp_path, proposal("alice", 3 * MIB), proposal("bob", MIB, "lab"), text=text)
    assert [each.header.cluster_name for each in found.plans] == ["prod", "lab"]
    repository = Repository.at(tmp_path, None)
    config = repository.config()
    (tmp_path / "lab.json").unlink()
    again = [replace(proposal("gone", None), cluster=name) for name in ("prod", "lab")]
    edited = edit_quotas(repository, config, again, {}, date(2026, 11, 22))
    found = plan_proposals(repository, config, tuple(config.clusters.values()), again, edited)
    assert [each.header.cluster_name for each in found.plans] == ["prod"]
    assert [name for name, _ in found.failures] == ["lab"]
