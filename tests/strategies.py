"""Generators of quotas for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS, keys_for

FEW_NAMES = st.sampled_from(["alice", "bob", "<default>", "CN=a b,O=x", "Å"])
"""Few enough that entities meet, odd enough to matter."""
FEW_IPS = st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"])


def maybe_default(names: st.SearchStrategy[str]) -> st.SearchStrategy[str | None]:
    return st.one_of(names, st.none())


CLIENT_ENTITIES = st.one_of(
    st.builds(lambda user: Entity(user=user), maybe_default(FEW_NAMES)),
    st.builds(lambda client: Entity(client_id=client), maybe_default(FEW_NAMES)),
    st.builds(
        lambda user, client: Entity(user=user, client_id=client), maybe_default(FEW_NAMES), maybe_default(FEW_NAMES)
    ),
)
IP_ENTITIES = st.builds(lambda ip: Entity(ip=ip), maybe_default(FEW_IPS))
ENTITIES = st.one_of(CLIENT_ENTITIES, CLIENT_ENTITIES, CLIENT_ENTITIES, IP_ENTITIES)

FEW_WHOLE = st.sampled_from([1.0, 2.0, 1024.0, 10485760.0])


def values_for(entity: Entity) -> st.SearchStrategy[dict[str, float]]:
    """At least one value, of keys that fit the entity and that every broker accepts."""
    fractions = st.sampled_from([0.5, 12.5, 150.0])
    pairs = {
        key: FEW_WHOLE if QUOTA_KEYS[key].is_whole else st.one_of(FEW_WHOLE, fractions) for key in keys_for(entity)
    }
    return st.fixed_dictionaries({}, optional=pairs).filter(bool)


@st.composite
def quotas(draw: st.DrawFn, max_size: int = 12) -> dict[Entity, dict[str, float]]:
    """What a cluster may hold."""
    entities = draw(st.lists(ENTITIES, unique=True, max_size=max_size))
    return {entity: draw(values_for(entity)) for entity in entities}


@st.composite
def desired(draw: st.DrawFn, max_size: int = 12) -> Desired:
    """What files may say, tombstones included."""
    entries: dict[Entity, Entry] = {}
    for line, (entity, values) in enumerate(draw(quotas(max_size)).items(), start=1):
        absent = draw(st.sampled_from([None, None, None, "state: absent"]))
        entries[entity] = Entry(
            entity=entity,
            values={} if absent else values,
            location=Location("quotas.d/generated.yaml", line, 5),
            absent=absent,
        )
    return entries
