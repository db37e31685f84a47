"""The Python API called wrongly: a sentence that names the argument and what is expected, and nothing is sent.

Most of these calls ended in an `AttributeError` or another error from within, some of them after the cluster was asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import quotaform
from quotaform import ANY, Alteration, Entity, EntityFilter, QuotaAdmin, Rule
from quotaform.cluster.broker import split_alterations
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.quotas import Quotas, Snapshot
from tests.scripted_gateway import ScriptedGateway

KEY = "producer_byte_rate"
ALICE = Entity(user="alice")
Call = Callable[[Any], object]
api: Any = quotaform
SECRET = "canary-7f3a"


class Checked(ScriptedGateway):
    """Refuses what a running cluster refuses before it sends."""

    def alter(self, alterations: Any, **more: Any) -> Any:
        split_alterations(alterations)
        return super().alter(alterations, **more)


WRONG_TYPES: list[tuple[Call, str]] = [
    (lambda _: api.Entity("alice"), "the argument of Entity() must be a mapping of entity type to name, no"),
    (lambda _: api.Entity(user=b"a"), "user must be a string, or None for the default, not bytes"),
    (lambda _: api.Entity({5: "a"}), "an entity type in Entity() must be a string, not int"),
    (lambda _: api.Entity({"user": "a"}, user="b"), "user is given twice in Entity()"),
    (lambda _: api.Entity(clientid="a"), "unexpected keyword argument 'clientid'"),
    (lambda _: api.EntityFilter.contains("user"), "EntityFilter.contains() must be a mapping of entity type"),
    (lambda _: api.EntityFilter.contains(user=5), "user must be a string, None for the default, or ANY, no"),
    (lambda _: api.EntityFilter.contains_only(ip=b"x"), "ip must be a string, None for the default, or ANY"),
    (lambda _: api.EntityFilter.contains_only({"ip": ANY}, ip=None), "ip is given twice in EntityFilter.contains_o"),
    (lambda _: api.EntityFilter("user"), "components must be a tuple of FilterComponent, not str"),
    (lambda _: api.EntityFilter(("user",)), "each item of components must be a FilterComponent, not str"),
    (lambda _: api.EntityFilter((), "no"), "is_strict must be True or False, not str"),
    (lambda _: api.EntityFilter.all().matches("user=alice"), "entity must be an Entity, not str"),
    (lambda _: api.FilterComponent(None, Rule.ANY), "entity_type must be a string, not None"),
    (lambda _: api.FilterComponent("user", Rule.EXACT, 5), "match must be a string or None, not int"),
    (lambda _: api.Alteration("user=alice", {}), "entity must be an Entity, not str"),
    (lambda _: api.Alteration(ALICE, KEY), "ops must be a mapping of quota key to value, not str"),
    (lambda _: api.Alteration(ALICE, {KEY: "1"}), f"{KEY} must be a number, or None to remove the key, not str"),
    (lambda _: api.Alteration(ALICE, {KEY: True}), f"{KEY} must be a number, or None to remove the key, not bool"),
    (lambda _: api.Alteration(ALICE, {7: 1.0}), "a quota key in ops must be a string, not int"),
    (lambda _: api.QuotaAdmin("localhost:9092"), "gateway must be an open gateway, not str; use QuotaAdmin.connect()"),
    (lambda _: api.QuotaAdmin.connect(None), "bootstrap_servers must be HOST:PORT as a string, or an"),
    (lambda _: api.QuotaAdmin.connect({"b1": 9092}), "bootstrap_servers must be HOST:PORT as a string, or an"),
    (lambda _: api.QuotaAdmin.connect(["b1:1", 5]), "an iterable of them; item 1 is int"),
    (lambda _: api.QuotaAdmin.connect("b1:1", command_config=5), "command_config must be a path or None, not int"),
    (lambda _: api.QuotaAdmin.connect("b1:1", properties="a=b"), "properties must be a mapping of client property"),
    (lambda _: api.QuotaAdmin.connect("b1:1", properties={1: "b"}), "a key of properties must be a string, not int"),
    (lambda _: api.QuotaAdmin.connect("b1:1", properties={"sasl.jaas.config": SECRET.encode()}), "a value of"),
    (lambda _: api.QuotaAdmin.connect("b1:1", timeout="5"), "timeout must be a number of seconds, not str"),
    (lambda _: api.QuotaAdmin.from_snapshot(None), "path must be a path, not None"),
    (lambda admin: admin.describe(None), "entity_filter must be an EntityFilter such as"),
    (lambda admin: admin.describe(ALICE), "EntityFilter.contains(user='alice'), not Entity"),
    (lambda admin: admin.describe(EntityFilter), "not the class EntityFilter"),
    (lambda admin: admin.resolve(user=5), "user must be a string, or None to leave it out, not int"),
    (lambda admin: admin.resolve_all(ALICE), "entities must be an iterable of Entity, not one Entity"),
    (lambda admin: admin.resolve_all("alice"), "entities must be an iterable of Entity, not str"),
    (lambda admin: admin.resolve_all([ALICE, "bob"]), "entities must be an iterable of Entity; item 1 is"),
    (lambda admin: admin.alter(Alteration(ALICE, {})), "alterations must be an iterable of Alteration, not one"),
    (lambda admin: admin.alter({ALICE: {KEY: 1.0}}), "alterations must be an iterable of Alteration, not dict"),
    (lambda admin: admin.alter(None), "alterations must be an iterable of Alteration, not None"),
    (lambda admin: admin.alter([ALICE]), "of Alteration; item 0 is Entity"),
    (lambda admin: admin.alter([], validate_only="no"), "validate_only must be True or False, not str"),
]

WRONG_VALUES: list[tuple[Call, str]] = [
    (lambda _: api.FilterComponent("user", "typo"), "rule must be one of Rule.EXACT, Rule.DEFAULT"),
    (lambda _: api.FilterComponent("user", Rule.EXACT), "with the rule exact needs match, the text"),
    (lambda _: api.FilterComponent("user", Rule.ANY, "a"), "with the rule any has no match"),
    (lambda _: api.QuotaAdmin.connect("b1:1", timeout=float("nan")), "timeout must be a positive number"),
    (lambda _: api.QuotaAdmin.connect("b1:1", timeout=float("inf")), "timeout must be a positive number"),
    (lambda _: api.QuotaAdmin.connect("b1:1", timeout=0), "timeout must be a positive number of seconds"),
    (lambda admin: admin.resolve(), "give a user, a client-id, both, or an ip"),
    (lambda admin: admin.resolve(user=""), "the name of the user is empty; only a client-id can be"),
    (lambda admin: admin.resolve(user="a", ip="::1"), "user=a,ip=::1 is not the source of a request"),
    (lambda admin: admin.resolve_all([Entity()]), "give a user, a client-id, both, or an ip"),
    (lambda admin: admin.resolve_all([Entity(user=None)]), "user=<default> is not a concrete entity"),
    (lambda admin: admin.resolve_all([Entity(ip=None)]), "requests have no default ip; give an address"),
    (lambda admin: admin.resolve_all([Entity({"group": "g"})]), "group=g is not the source of a request"),
    (lambda admin: admin.alter([Alteration(ALICE, {KEY: float("nan")})]), f"{KEY} is not a finite number"),
    (lambda admin: admin.alter([Alteration(ALICE, {KEY: 10**400})]), f"{KEY} is not a finite number"),
    (lambda admin: admin.alter([Alteration(ALICE, {KEY: 2**53 + 1})]), "which a double cannot represent exactly"),
    (lambda admin: admin.alter([Alteration(ALICE, {})] * 2), "user=alice is altered twice in one call"),
]


@pytest.mark.parametrize(("call", "words"), WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_named_and_nothing_is_sent(call: Call, words: str) -> None:
    gateway = Checked({})
    with pytest.raises(TypeError, match=re.escape(words)) as caught:
        call(QuotaAdmin(gateway))
    assert gateway.log == []
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("call", "words"), WRONG_VALUES)
def test_a_wrong_value_is_said_and_nothing_is_sent(call: Call, words: str) -> None:
    gateway = Checked({})
    with pytest.raises(ValueError, match=re.escape(words)):
        call(QuotaAdmin(gateway))
    assert gateway.log == []


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

    def test_it_cannot_be_altered(self, path: Path) -> None:
        with pytest.raises(ClusterError, match="lab is a snapshot, which cannot be changed"):
            QuotaAdmin.from_snapshot(path).alter([Alteration(ALICE, {KEY: 1.0})])

    def test_a_file_that_is_none_is_said(self, tmp_path: Path) -> None:
        for name in ("absent.json", "."):
            with pytest.raises(InvalidFilesError):
                QuotaAdmin.from_snapshot(tmp_path / name)


class TestClosing:
    @pytest.mark.parametrize(
        "call",
        [
            lambda admin: admin.describe(),
            lambda admin: admin.resolve(user="a"),
            lambda admin: admin.resolve_all([ALICE]),
            lambda admin: admin.alter([Alteration(ALICE, {KEY: 1.0})]),
            lambda admin: admin.cluster_id(),
        ],
    )
    def test_a_closed_admin_says_so_and_asks_nothing(self, call: Call) -> None:
        """One of a snapshot answered as before, and one of a cluster named its connection."""
        gateway = ScriptedGateway({})
        with QuotaAdmin(gateway) as admin:
            pass
        admin.close()
        with pytest.raises(ClusterError, match="This QuotaAdmin is closed"):
            call(admin)
        assert set(gateway.log) == {"close"}


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
