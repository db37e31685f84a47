"""The Python API called wrongly: a sentence that names the argument and what is expected, and nothing is sent.

Most of these calls ended in an `AttributeError` or another error from within, some of them after the cluster was asked.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import quotaform
from quotaform import Alteration, Entity, EntityFilter, QuotaAdmin
from quotaform.cluster.broker import split_alterations
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.quotas import Quotas, Snapshot
from tests.scripted_gateway import ScriptedGateway

KEY = "producer_byte_rate"
ALICE = Entity(user="alice")
api: Any = quotaform


class Checked(ScriptedGateway):
    """Refuses what a running cluster refuses before it sends."""

    def alter(self, alterations: Any, **more: Any) -> Any:
        split_alterations(alterations)
        return super().alter(alterations, **more)


def test_what_can_be_gone_through_is_taken() -> None:
    admin = QuotaAdmin(Checked({ALICE: {KEY: 1.0}}))
    assert admin.resolve_all(iter([ALICE, ALICE])).keys() == {ALICE}
    assert admin.resolve_all({ALICE}).keys() == {ALICE}
    assert len(admin.alter(Alteration(Entity(user=name), {KEY: 1}) for name in "ab")) == 2
    assert api.EntityFilter([api.FilterComponent("user", "exact", "a")]) == EntityFilter.contains(user="a")


class TestSnapshot:
    """A snapshot's admin could only be had through modules that are not public."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        quotas: Quotas = {ALICE: {KEY: 1.0}, Entity(user=None): {KEY: 2.0}}
        path = tmp_path / "lab.json"
        path.write_text(dump_snapshot(Snapshot(cluster_name="lab", cluster_id="x", captured_at="", quotas=quotas)))
        return path

    def test_it_is_described_and_resolved_offline(self, path: Path) -> None:
        for spelled in (path, str(path)):
            with QuotaAdmin.from_snapshot(spelled) as admin:
                assert admin.cluster_id() == "x"
                assert admin.snapshot is not None
                assert admin.snapshot.path == str(path)
                assert admin.describe(EntityFilter.contains(user="alice")) == {ALICE: {KEY: 1.0}}
                assert admin.resolve(user="bob")[KEY].value == 2.0

    def test_a_file_that_is_none_is_said(self, tmp_path: Path) -> None:
        for name in ("absent.json", "."):
            with pytest.raises(InvalidFilesError):
                QuotaAdmin.from_snapshot(tmp_path / name)


class Slow(ScriptedGateway):
    """Takes its time, and notes how many threads it serves at once."""

    def __init__(self) -> None:
        super().__init__({})
        self.entered, self.may_end = Event(), Event()
        self.inside = self.most = 0

    def describe(self, *arguments: Any, **more: Any) -> Quotas:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.set()
        self.may_end.wait(60)
        self.inside -= 1
        return {}

    def close(self) -> None:
        self.may_end.set()


class TestThreads:
    def test_calls_of_several_threads_are_made_one_after_the_other(self) -> None:
        """Two threads wrote to one connection at a time."""
        gateway = Slow()
        admin = QuotaAdmin(gateway)
        threads = [Thread(target=admin.describe) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert gateway.entered.wait(60)
        gateway.may_end.set()
        for thread in threads:
            thread.join(60)
        assert gateway.most == 1

    def test_closing_does_not_wait_for_a_call(self) -> None:
        gateway = Slow()
        admin = QuotaAdmin(gateway)
        thread = Thread(target=admin.describe)
        thread.start()
        assert gateway.entered.wait(60)
        admin.close()
        thread.join(60)
        assert not thread.is_alive()
        with pytest.raises(ClusterError, match="is closed"):
            admin.describe()
