"""Lints about precedence against requests that are made one by one."""

from __future__ import annotations

from datetime import date
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Desired, Quotas
from quotaform.model.settings import Capacity, LintSettings
from quotaform.plan.check.lint import LintFacts, check_lints, declared_quotas, shadowed_keys
from tests.builder import declare
from tests.property.test_resolve_many import CLIENT_KEYS, OTHER, oracle
from tests.strategies import IPS, NAMES, quotas

NEW = "another name that no quota mentions"
USERS = (*NAMES, OTHER, NEW)
CLIENTS = ("", *USERS)


def winner(all_quotas: Quotas, user: str, client: str, key: str) -> tuple[float | None, Entity | None]:
    """The value that applies to a request, and the entry that it comes from."""
    found = oracle(all_quotas, Entity(user=user, client_id=client), key)
    return found[0][:2] if found else (None, None)


def wins_somewhere(all_quotas: Quotas, entity: Entity, key: str) -> bool:
    """Whether any request has a key from an entity."""
    if "ip" in entity.names:
        ips = (*IPS, "192.0.2.9")
        return any((ip if Entity(ip=ip) in all_quotas else None) == entity.names["ip"] for ip in ips)
    return any(winner(all_quotas, user, client, key)[1] == entity for user in USERS for client in CLIENTS)


@given(quotas(max_size=20))
def test_an_entry_is_shadowed_when_it_wins_for_no_request_at_all(all_quotas: Quotas) -> None:
    facts = facts_of(declare(all_quotas))
    for entity, values in all_quotas.items():
        shadowed = shadowed_keys(facts, entity, values)
        for key in values:
            assert (key in shadowed) != wins_somewhere(all_quotas, entity, key), (entity.address, key)


def facts_of(desired: Desired) -> LintFacts:
    return LintFacts(
        desired=desired,
        quotas=declared_quotas(desired),
        settings=LintSettings(),
        capacity=Capacity(),
        today=date(2026, 11, 22),
    )


def size(key: str, value: float | None) -> float:
    return inf if value is None or value >= QUOTA_KEYS[key].maximum else value


@given(quotas(max_size=20), st.sampled_from(CLIENT_KEYS))
def test_a_client_id_is_renamable_when_a_request_with_another_one_has_more(all_quotas: Quotas, key: str) -> None:
    desired = declare({entity: {key: values[key]} for entity, values in all_quotas.items() if key in values})
    facts = facts_of(desired)
    every = facts.quotas

    found = {each.address for each in check_lints(facts).findings if each.rule == "renamable-client-id"}

    expected = set()
    for entity in every:
        client = entity.names.get("client-id")
        if client is None:
            continue
        user = entity.names.get("user") or OTHER
        value, source = winner(every, user, client, key)
        other, _ = winner(every, user, NEW, key)
        if source == entity and size(key, other) > size(key, value):
            expected.add(entity.address)
    assert found == expected
