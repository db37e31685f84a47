"""Many requests at once, key by key, against the eight levels spelled out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.precedence import CLIENT_PRECEDENCE, IP_PRECEDENCE
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Quotas
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.resolve import ResolveOptions, Resolver, make_resolution
from tests.builder import resolve_entities
from tests.strategies import FEW_IPS, FEW_NAMES, quotas

CLIENT_KEYS, IP_KEYS = CLIENT_PRECEDENCE.keys, IP_PRECEDENCE.keys
OTHER = "a name that no quota mentions"
NAMES = st.one_of(FEW_NAMES, st.just(OTHER))
REQUESTS = st.one_of(
    st.builds(lambda user, client: Entity(user=user, client_id=client), NAMES, NAMES),
    st.builds(lambda user: Entity(user=user, client_id=""), NAMES),
    st.builds(lambda user: Entity(user=user), NAMES),
    st.builds(lambda client: Entity(client_id=client), NAMES),
    st.builds(lambda ip: Entity(ip=ip), st.one_of(FEW_IPS, st.just("192.0.2.9"))),
)
SOURCES = {
    1: "ClientInUser",
    2: "DefaultClientInUser",
    3: "User",
    4: "ClientInDefaultUser",
    5: "DefaultClientInDefaultUser",
    6: "DefaultUser",
    7: "Client",
    8: "DefaultClient",
}


def places(request: Entity) -> list[tuple[str, Entity]]:
    """Where the accepted text of KIP-546 looks, in its order, with KIP-248's names."""
    names = request.names
    if "ip" in names:
        return [("Ip", Entity(ip=names["ip"])), ("DefaultIp", Entity(ip=None))]
    # A name that is left out is one that no entry mentions.
    user, client = names.get("user", "\x00nobody"), names.get("client-id", "\x00nothing")
    shapes: list[dict[str, str | None]] = [
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"user": user},
        {"user": None, "client-id": client},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": client},
        {"client-id": None},
    ]
    return [
        (SOURCES[number], Entity(shape))
        for number, shape in enumerate(shapes, 1)
        if client != "" or "client-id" not in shape
    ]


def oracle(all_quotas: Quotas, request: Entity, key: str) -> list[tuple[float, Entity, str]]:
    """All entries that hold the key for a request, the winner first."""
    return [
        (all_quotas[entity][key], entity, source)
        for source, entity in places(request)
        if key in all_quotas.get(entity, {})
    ]


@given(quotas(max_size=25), st.lists(REQUESTS, max_size=12))
def test_many_requests_resolve_as_the_levels_spelled_out(all_quotas: Quotas, requests: list[Entity]) -> None:
    found = resolve_entities(all_quotas, requests)
    assert found.keys() == set(requests)
    for request, keys in found.items():
        assert keys.keys() == set(IP_KEYS if "ip" in request.types else CLIENT_KEYS)
        for key, resolved in keys.items():
            expected = oracle(all_quotas, request, key)
            if not expected:
                assert resolved[:4] == (None, None, (), None)
                continue
            assert (resolved.value, resolved.source, resolved.source_name) == expected[0]
            lost = [(each.value, each.source, each.level and each.level.source) for each in resolved.overridden]
            assert lost == expected[1:]


def test_of_any_set_of_entries_the_first_of_the_eight_levels_wins_and_the_others_follow_in_order() -> None:
    request, key = Entity(user="a", client_id="b"), CLIENT_KEYS[0]
    entities = [entity for _, entity in places(request)]
    for chosen in range(2 ** len(entities)):
        held = {entity: {key: 1.0 + place} for place, entity in enumerate(entities) if chosen >> place & 1}
        resolved = resolve_entities(held, [request])[request][key]
        assert [each.source for each in resolved.entries] == list(held)


@given(quotas(), REQUESTS, st.booleans(), st.booleans(), st.lists(st.sampled_from(CLIENT_KEYS + IP_KEYS), max_size=3))
def test_less_detail_only_leaves_out(
    all_quotas: Quotas, request: Entity, inherited: bool, overridden: bool, keys: list[str]
) -> None:
    chosen = tuple(sorted(set(keys), key=key_order))
    whole = {row.key: row for row in make_resolution(request, Resolver(QuotaIndex(all_quotas))).keys}
    detail = ResolveOptions(keys=chosen, inherited=inherited, overridden=overridden)
    for row in make_resolution(request, Resolver(QuotaIndex(all_quotas)), detail=detail).keys:
        full = whole.pop(row.key)
        assert row.resolved[:2] == full.resolved[:2]
        assert row.resolved.overridden == (full.resolved.overridden if overridden else ())
        assert inherited or row.resolved.source == request
    for row in whole.values():
        assert (chosen and row.key not in chosen) or (not inherited and row.resolved.source != request)
