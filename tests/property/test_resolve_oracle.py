"""Resolve and the effects of a plan against a brute-force oracle that knows the eight levels by heart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quotaform.core.effects import make_effects
from quotaform.core.resolve.entry import effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import UNMENTIONED
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.strategies import ENTITIES, FEW_IPS, FEW_NAMES, quotas

USER_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
OTHER = "a name that no quota mentions"


def oracle(all_quotas: Quotas, user: str, client: str, key: str) -> tuple[float | None, Entity | None]:
    """The accepted text of KIP-546, spelled out: the first of eight places that holds the key."""
    places: list[dict[str, str | None]] = [
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"user": user},
        {"user": None, "client-id": client},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": client},
        {"client-id": None},
    ]
    for place in places:
        if client == "" and "client-id" in place:
            continue
        entity = Entity(place)
        if key in all_quotas.get(entity, {}):
            return all_quotas[entity][key], entity
    return None, None


@given(quotas(max_size=20), FEW_NAMES, st.one_of(FEW_NAMES, st.just("")), st.sampled_from(USER_KEYS))
def test_resolve_equals_the_eight_levels_spelled_out(all_quotas: Quotas, user: str, client: str, key: str) -> None:
    found = effective(QuotaIndex(all_quotas).entries((user, client)), key)
    assert (found.value, found.source) == oracle(all_quotas, user, client, key)


@given(quotas(max_size=20), st.one_of(FEW_IPS, st.just("192.0.2.9")))
def test_an_address_resolves_to_its_own_entry_or_the_default(all_quotas: Quotas, ip: str) -> None:
    found = effective(QuotaIndex(all_quotas).entries((ip,)), "connection_creation_rate")
    own, default = all_quotas.get(Entity(ip=ip)), all_quotas.get(Entity(ip=None))
    expected = own or default or {}
    assert found.value == expected.get("connection_creation_rate")


@given(quotas(max_size=20), st.sampled_from(USER_KEYS))
def test_an_unmentioned_name_resolves_like_any_name_without_quotas(all_quotas: Quotas, key: str) -> None:
    found = effective(QuotaIndex(all_quotas).entries((UNMENTIONED, UNMENTIONED)), key)
    assert (found.value, found.source) == oracle(all_quotas, OTHER, OTHER, key)


@given(quotas(max_size=20), quotas(max_size=20), ENTITIES)
def test_effects_resolve_the_representative_and_count_who_differs(
    before: Quotas, after: Quotas, entity: Entity
) -> None:
    names = entity.names
    if "ip" in names:
        return
    user, client = names.get("user") or OTHER, names.get("client-id") or OTHER
    users = {n for e in after for t, n in e.parts if t == "user" and n is not None}
    clients = {n for e in after for t, n in e.parts if t == "client-id" and n is not None}
    planned: Quotas = {**{gone: {} for gone in before}, **after}
    (effects,) = make_effects(before, planned, [(entity, USER_KEYS)])
    for key, effect in zip(USER_KEYS, effects, strict=True):
        assert (effect.before.value, effect.before.source) == oracle(before, user, client, key)
        value, source = oracle(after, user, client, key)
        assert (effect.after.value, effect.after.source) == (value, source)
        expected = {}
        if client == OTHER:
            expected["client-id"] = sum(oracle(after, user, name, key)[0] != value for name in clients)
        if user == OTHER:
            expected["user"] = sum(oracle(after, name, client, key)[0] != value for name in users)
        assert dict(effect.differs) == {kind: count for kind, count in expected.items() if count}
