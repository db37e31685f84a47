"""Planning many clusters: one outcome each, whatever becomes of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.desired.config import Cluster
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Quotas
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.repository import Repository, Target
from tests.builder import PRODUCER
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE = Entity(user="alice")
CONFIG = "clusters:\n" + "".join(f"  {name}: {{bootstrap_servers: ['{name}:9092']}}\n" for name in ("eu", "us", "lab"))
LIVE: Quotas = {ALICE: {PRODUCER: 1.0}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "quotaform.yaml").write_text(CONFIG, encoding="utf-8")
    write(tmp_path, "quotas.d/all.yaml", f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2}}}}]\n")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def planned(
    folder: Path, *names: str, down: tuple[str, ...] = (), cluster_id: str | None = None
) -> list[ClusterOutcome[Plan]]:
    def connect(cluster: Cluster) -> ScriptedGateway:
        if cluster.name in down:
            raise ClusterError(f"{cluster.name} is down")
        return ScriptedGateway(LIVE, cluster_id=cluster_id or cluster.name)

    repository = Repository.at(folder, None)
    config = repository.config()
    clusters = repository.clusters(config, Target(clusters=names, takes_all=not names))
    request = PlanRequest(repository=repository, config=config, clusters=clusters)
    return list(plan(request, clock=Clock(), connect=connect))


def after(outcome: ClusterOutcome[Plan]) -> float:
    (change,) = outcome.require().changes
    return change.after[PRODUCER]


def test_each_cluster_has_a_plan_of_its_own_in_the_order_of_the_file(folder: Path) -> None:
    write(folder, "quotas.d/us/own.yaml", f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 3}}}}]\n")
    outcomes = planned(folder)
    assert [(outcome.cluster, after(outcome)) for outcome in outcomes] == [("eu", 2.0), ("us", 3.0), ("lab", 2.0)]
    assert [outcome.require().header.created_at for outcome in outcomes] == ["2026-11-20T09:12:44Z"] * 3


def test_a_cluster_that_is_down_is_an_outcome(folder: Path) -> None:
    eu, us, lab = planned(folder, down=("us",))
    assert (after(eu), after(lab)) == (2.0, 2.0)
    assert str(us.error) == "us is down"
    with pytest.raises(ClusterError, match="us is down"):
        us.require()


def test_invalid_files_of_one_cluster_do_not_hide_the_plans_of_the_others(folder: Path) -> None:
    write(folder, "quotas.d/us/own.yaml", "quotas: [{match: {user: alice}, values: {producer_bite_rate: 3}}]\n")
    eu, us, lab = planned(folder)
    assert (after(eu), after(lab)) == (2.0, 2.0)
    assert isinstance(us.error, InvalidFilesError)
    assert us.error.problems[0].rule == "unknown-key"


def test_invalid_files_are_reported_whether_or_not_the_cluster_is_down(folder: Path) -> None:
    write(folder, "quotas.d/all.yaml", "quotas: [{match: {user: 7}}]\n")
    outcomes = planned(folder, "eu", down=("eu",))
    assert [type(outcome.error) for outcome in outcomes] == [InvalidFilesError]


def same_cluster(outcome: ClusterOutcome[Plan]) -> dict[str, str]:
    found = outcome.require().findings
    return {finding.rule: finding.message for finding in found if finding.rule.startswith("same-cluster")}


def test_two_names_for_one_cluster_are_a_warning(folder: Path) -> None:
    first, second, _ = planned(folder, cluster_id="same")
    assert same_cluster(first) == {}
    assert same_cluster(second) == {"same-cluster": "us and eu are the same live cluster (id same)"}
    assert second.require().is_applyable


def test_two_names_for_one_cluster_whose_files_disagree_are_not_applied(folder: Path) -> None:
    """With the address of the first one copied, `apply --all` applied one set of files over the other."""
    write(folder, "quotas.d/us/own.yaml", f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 3}}}}]\n")
    first, second, third = planned(folder, cluster_id="same")
    assert [each.require().is_applyable for each in (first, second, third)] == [True, False, True]
    assert "their files disagree about user=alice" in same_cluster(second)["same-cluster-conflict"]


def test_an_id_that_is_pinned_for_another_name_is_a_warning(folder: Path) -> None:
    config = CONFIG.replace("['eu:9092']", "['eu:9092'], cluster_id: same")
    (folder / "quotaform.yaml").write_text(config, encoding="utf-8")
    (outcome,) = planned(folder, "us", cluster_id="same")
    assert list(same_cluster(outcome)) == ["same-cluster"]
