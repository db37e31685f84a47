"""Resolving from Python; what is said of requests is in `tests/golden/decided-resolved.txt`."""

from __future__ import annotations

from typing import ClassVar

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.resolve.resolve import Detail, Resolver, make_resolution
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.scripted_gateway import ScriptedGateway

ALICE = Entity(user="alice")
BOTH = Entity(user="alice", client_id="app1")


class TestKeys:
    def test_a_key_that_only_the_plan_removes_is_still_there(self) -> None:
        quotas = {ALICE: {"future_rate": 1.0}}
        rows = make_resolution(
            ALICE, Resolver(QuotaIndex(quotas)), Resolver(QuotaIndex({})), Detail(keys=("future_rate",))
        ).keys
        assert [(row.resolved.value, row.before and row.before.value) for row in rows] == [(None, 1.0)]


class TestUnmentionedNames:
    """An omitted client-id was resolved as an empty one, which nearly no client sends, and plans meant another one."""

    QUOTAS: ClassVar[Quotas] = {
        ALICE: {PRODUCER: 1.0},
        BOTH: {PRODUCER: 2.0},
        Entity(user="alice", client_id="same"): {PRODUCER: 3.0},
        Entity(user="alice", client_id=None): {PRODUCER: 3.0},
        Entity(client_id="x"): {CONSUMER: 4.0},
        Entity(client_id=None): {CONSUMER: 5.0},
        Entity(user=None): {REQUEST: 6.0},
        Entity(user="bob"): {REQUEST: 7.0},
    }

    def test_the_api_says_it_too(self) -> None:
        admin = QuotaAdmin(ScriptedGateway(self.QUOTAS))
        found = admin.resolve(user="alice")
        assert (found[PRODUCER].value, found[PRODUCER].differs) == (3.0, {"client-id": 1})
        assert admin.resolve(user="alice", client_id="")[PRODUCER].value == 1.0
        assert admin.resolve_all([ALICE])[ALICE] == found


def test_a_client_id_that_is_called_like_a_user_is_not_taken_for_it() -> None:
    """What was kept for a user was found again by a client-id of the same name, where no entry names a client-id."""
    admin = QuotaAdmin(ScriptedGateway({ALICE: {PRODUCER: 1.0}}))
    both, other = Entity(user="alice", client_id="alice"), Entity(user="bob", client_id="alice")
    found = admin.resolve_all([Entity(user="alice", client_id="x"), both, other])
    assert (found[both][PRODUCER].value, found[both][PRODUCER].overridden) == (1.0, ())
    assert found[other][PRODUCER].value is None
