"""A repository of three brokers: what a plan of them is by the local engine, and by another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.spark.log import messages
from tests.workflow.command import Cluster, Repository, Result

if TYPE_CHECKING:
    from tests.spark.command_process import CommandProcess

ALLOWED = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")


class BrokerFleet:
    """Clusters `open`, `secured` and `paused`, in a folder that executors do not share: paths are absolute."""

    env: ClassVar[Mapping[str, str]] = {"SOURCE_DATE_EPOCH": "1795000000"}

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

    def plan_by(self, process: CommandProcess, folder: str) -> Result:
        """Plan all clusters on Spark, where a process has it; plan files go to a folder."""
        return process.run(self.repository, *self.arguments(folder), "--engine", "spark", env=self.env)

    def arguments(self, folder: str) -> tuple[str, ...]:
        """Return the arguments of `quotaform` by which all clusters are planned."""
        return ("plan", "--all", "--out", f"{folder}/{{cluster}}.json", "--detailed-exitcode", *ALLOWED)

    def require_same(self, result: Result, folder: str) -> None:
        """Make sure that a run ended, and wrote, what the local engine does.

        Args:
            result: The run.
            folder: Where its plan files are.
        """
        local = self.require_same_files(folder)
        assert (result.code, result.out) == (local.code, local.out)
        assert messages(result).replace(f" {folder}/", " local/") == local.err
        assert local.code == 2

    def require_same_files(self, folder: str) -> Result:
        """Make sure that the plan files of a folder are what the local engine writes, and return how that ends."""
        local = self.repository(*self.arguments("local"), env=self.env)
        names = sorted(path.name for path in (self.repository.path / "local").iterdir())
        assert names == ["open.json", "paused.json", "secured.json"]
        for name in names:
            assert self.repository.read(f"{folder}/{name}") == self.repository.read(f"local/{name}")
        return local
