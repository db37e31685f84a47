"""A repository of three brokers: what a plan of them is by the local engine, and by another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.workflow.command import Cluster, Repository, Result

ALLOWED = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")
SAME_TIME = {"SOURCE_DATE_EPOCH": "1795000000"}


class BrokerFleet:
    """Clusters `open`, `secured` and `paused`, in a folder that executors do not share: paths are absolute."""

    def __init__(self, folder: Path, open_one: Sandbox, secured: Sandbox, paused: Sandbox) -> None:
        self.repository = Repository(folder)
        self.paused = paused
        properties = self.repository.write("admin.properties", secured.client_properties("SASL_SSL"))
        self.repository.config(
            "clusters:\n"
            f"  open: {{bootstrap_servers: ['{open_one.bootstrap_servers}']}}\n"
            f"  secured: {{bootstrap_servers: ['{secured.listeners['SASL_SSL']}'], command_config: {properties}}}\n"
            f"  paused: {{bootstrap_servers: ['{paused.bootstrap_servers}']}}\n"
        )
        self.repository.quotas(
            "  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n"
            "  - match: {user: bob, client-id: etl}\n    values: {consumer_byte_rate: 2MiB/s}\n"
        )
        self.repository.quotas("  - match: {user: carol}\n    values: {request_percentage: 50}\n", "secured/more.yaml")
        for sandbox in (open_one, paused):
            with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
                cluster = Cluster(gateway)
                cluster.wipe()
                cluster.alter(
                    {
                        Entity(user="alice"): {PRODUCER: 4096.0, REQUEST: 20.0},
                        Entity({"user": "bob", "client-id": "etl"}): {CONSUMER: 2097152.0},
                    }
                )

    def plan(self, folder: str, *options: str, env: Mapping[str, str] | None = None) -> Result:
        """Plan all clusters by the local engine, unless options say another one; plan files go to a folder."""
        return self.repository.process(*self.arguments(folder), *options, env={**SAME_TIME, **(env or {})})

    def arguments(self, folder: str) -> tuple[str, ...]:
        """Return the arguments of `quotaform` by which all clusters are planned."""
        return ("plan", "--all", "--out", f"{folder}/{{cluster}}.json", "--detailed-exitcode", *ALLOWED)

    def require_same(self, result: Result, folder: str) -> None:
        """Make sure that a run ended, and wrote, what the local engine does.

        Args:
            result: The run.
            folder: Where its plan files are.
        """
        local = self.plan("local")
        assert (result.code, result.out) == (local.code, local.out)
        assert result.err.replace(f" {folder}/", " local/") == local.err
        assert local.code == 2
        names = sorted(path.name for path in (self.repository.path / "local").iterdir())
        assert names == ["open.json", "paused.json", "secured.json"]
        for name in names:
            assert self.repository.read(f"{folder}/{name}") == self.repository.read(f"local/{name}")
