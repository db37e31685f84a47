"""Both engines on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER, REQUEST
from tests.spark.engine import by_local, by_spark, planned, request_for
from tests.spark.test_plan import entry, write_entries
from tests.workflow.command import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark", "same_time")]

NFC, NFD = "\u00c5", "A\u030a"


def test_every_shape_and_key_of_a_broker_is_planned_alike(cluster: Cluster, sandbox: Sandbox, tmp_path: Path) -> None:
    names: list[dict[str, str | None]] = [{}, {"user": "u"}, {"user": None}]
    clients: list[dict[str, str | None]] = [{}, {"client-id": "c"}, {"client-id": None}]
    shapes = [
        Entity(user_part | client_part) for user_part in names for client_part in clients if user_part or client_part
    ]
    cluster.alter(
        {
            **{shape: {PRODUCER: 1024.0 * n, CONSUMER: 2.0**63} for n, shape in enumerate(shapes, 1)},
            Entity(ip="10.0.0.1"): {CONNECTION: 2147483647.0},
            Entity(ip=None): {CONNECTION: 7.0},
            Entity(user=NFC): {REQUEST: 0.1 + 0.2},
            Entity(user=NFD): {REQUEST: 1e-300},
            Entity(user="<default>"): {MUTATION: 0.5},
            Entity(user="CN=a b,O=\u2028x"): {REQUEST: float("inf")},
            Entity(user="gone"): {REQUEST: 5.0},
        }
    )
    write_entries(
        tmp_path / "quotas.d/all.yaml",
        [
            *[entry(shape, {PRODUCER: 2048, REQUEST: 50}) for shape in shapes[:6]],
            entry(Entity(ip="10.0.0.1"), {CONNECTION: "unlimited"}),
            entry(Entity(user=NFC), {REQUEST: 0.1 + 0.2}),
            entry(Entity(user="CN=a b,O=\u2028x"), {REQUEST: 10}),
            entry(Entity(user="gone"), None),
            entry(Entity(user="new"), {MUTATION: 1.5}),
        ],
    )
    request = request_for(tmp_path, bootstrap_servers=sandbox.bootstrap_servers)
    text = by_local(request)
    assert by_spark(request) == text
    assert isinstance(text, str)
    plan = planned(request)
    assert plan.header.cluster_id == cluster.id
    assert dict(plan.summary) | {"create": 1, "update": 7, "delete": 1, "no_op": 2} == plan.summary


def test_a_bulk_difference_is_planned(cluster: Cluster, sandbox: Sandbox, tmp_path: Path) -> None:
    write_entries(tmp_path / "quotas.d/all.yaml", [entry(Entity(user=f"u{n}"), {REQUEST: 5}) for n in range(60)])
    request = request_for(tmp_path, bootstrap_servers=sandbox.bootstrap_servers)
    assert len(planned(request).changes) == 60


def test_credentials_are_read_where_the_cluster_is_and_shown_nowhere(
    secured_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(secured_sandbox.client_properties("SASL_SSL"), encoding="utf-8")
    wrong.write_text(secured_sandbox.client_properties("SASL_SSL", password="hunter2"), encoding="utf-8")
    write_entries(tmp_path / "quotas.d/all.yaml", [entry(Entity(user="u"), {REQUEST: 5})])
    address = secured_sandbox.listeners["SASL_SSL"]
    # Relative paths, as a user gives them: an executor has a directory of its own.
    good, bad = (
        request_for(tmp_path, bootstrap_servers=address, command_config=Path(path.name)) for path in (right, wrong)
    )
    assert isinstance(by_spark(good), str)
    assert by_spark(good) == by_local(good)
    assert by_spark(bad) == by_local(bad)
    assert by_spark(bad)[:2] == ("AuthenticationError", 1)
    assert "hunter2" not in str(by_spark(bad))
