"""Generators of quotas for property tests: what files may say, and what a cluster may hold whatever they say.

They are drawn thousands of times, so everything comes from lists and no strategy is made twice.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import inf, nan

from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.quotas import Cause, Desired, Entry
from quotaform.model.scope import ALL, FULL_SCOPE, Pattern, Scope, Selection

NAMES = ("alice", "bob", "<default>", "CN=a b,O=x", "Å")
IPS = ("10.0.0.1", "10.0.0.2", "::1")
FEW_NAMES = st.sampled_from(NAMES)
"""Few enough that entities meet, odd enough to matter."""
FEW_IPS = st.sampled_from(IPS)

CLIENT_ENTITIES = st.one_of(
    st.sampled_from([Entity(user=user) for user in (None, *NAMES)]),
    st.sampled_from([Entity(client_id=client) for client in (None, *NAMES)]),
    st.sampled_from([Entity(user=user, client_id=client) for user, client in product((None, *NAMES), repeat=2)]),
)
IP_ENTITIES = st.sampled_from([Entity(ip=ip) for ip in (None, *IPS)])
ENTITIES = st.one_of(CLIENT_ENTITIES, CLIENT_ENTITIES, CLIENT_ENTITIES, IP_ENTITIES)

FEW_WHOLE = (1.0, 2.0, 1024.0, 10485760.0)
FRACTIONS = (0.5, 12.5, 150.0)


def values_for(entity: Entity) -> st.SearchStrategy[dict[str, float]]:
    """At least one value, of keys that fit the entity and that every broker accepts; `unlimited` is one of them."""
    return _values_of(keys_for(entity))


@cache
def _values_of(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, float]]:
    known = [QUOTA_KEYS[name] for name in keys]
    # From pairs, and not key by key: that takes half as many draws and never comes out empty.
    pairs = [
        (key.name, value)
        for key in known
        for value in (*FEW_WHOLE, *(() if key.is_whole else FRACTIONS), key.maximum, key.maximum)
    ]
    return st.lists(st.sampled_from(pairs), min_size=1, max_size=4).map(dict)


@st.composite
def quotas(draw: st.DrawFn, max_size: int = 9, min_size: int = 0) -> dict[Entity, dict[str, float]]:
    entities = draw(st.lists(ENTITIES, unique=True, min_size=min_size, max_size=max_size))
    return {entity: draw(values_for(entity)) for entity in entities}


@st.composite
def desired(draw: st.DrawFn, max_size: int = 9, min_size: int = 0) -> Desired:
    """What files may say, tombstones included."""
    entries: dict[Entity, Entry] = {}
    for line, (entity, values) in enumerate(draw(quotas(max_size, min_size)).items(), start=1):
        cause = draw(CAUSES)
        entries[entity] = Entry(
            entity=entity,
            values=values if cause is Cause.ENTRY else {},
            location=Location("quotas.d/generated.yaml", line, 5),
            cause=cause,
        )
    return entries


CAUSES = st.sampled_from([Cause.ENTRY, Cause.ENTRY, Cause.ENTRY, Cause.TOMBSTONE])

UNKNOWN_KEYS = ("future_rate", "Producer_Byte_Rate", "")
UNKNOWN_ENTITIES = st.sampled_from(
    [
        *(Entity({"group": name}) for name in (None, *NAMES)),
        *(Entity({"user": "alice", "group": name}) for name in (None, *NAMES)),
        *(Entity(user=""), Entity(ip="localhost"), Entity(ip="::ffff:10.0.0.1")),
    ]
)
LIVE_ENTITIES = st.one_of(CLIENT_ENTITIES, CLIENT_ENTITIES, CLIENT_ENTITIES, IP_ENTITIES, UNKNOWN_ENTITIES)

MAXIMA = tuple(dict.fromkeys(key.maximum for key in QUOTA_KEYS.values()))
ODD_VALUES = (nan, nan, inf, -inf, 0.0, -1.0, 5e-324, 0.1 + 0.2, 1e308)
LIVE_VALUES = st.sampled_from([*FEW_WHOLE, *FRACTIONS, *MAXIMA, *ODD_VALUES]).map(
    # Every NaN is an object of its own, as in a broker's answers: `nan is nan` must not help a law to hold.
    lambda value: float("nan") if value != value else value
)


@cache
def _live_values_of(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, float]]:
    names = st.sampled_from([*keys, *keys, *keys, *UNKNOWN_KEYS])
    return st.dictionaries(names, LIVE_VALUES, min_size=1, max_size=4)


@st.composite
def live_quotas(draw: st.DrawFn, max_size: int = 9) -> dict[Entity, dict[str, float]]:
    """What a cluster may hold, whoever wrote it: also what no file can say and what this version does not know."""
    entities = draw(st.lists(LIVE_ENTITIES, unique=True, max_size=max_size))
    return {entity: draw(_live_values_of(keys_for(entity))) for entity in entities}


PATTERNS = st.fixed_dictionaries(
    {},
    optional={
        "user": st.sampled_from([None, "*", "a*", "bob", "CN=*"]),
        "client-id": st.sampled_from([None, "*", "[ab]*"]),
        "ip": st.sampled_from([None, "10.*"]),
    },
).map(lambda parts: Pattern(tuple(parts.items())))
FEW_PATTERNS = st.lists(PATTERNS.filter(lambda pattern: pattern.parts), max_size=2).map(tuple)
SCOPES = st.one_of(st.just(FULL_SCOPE), st.builds(Scope, FEW_PATTERNS, FEW_PATTERNS))
"""Which entities the files speak for."""

GLOBS = ("user=*", "user=alice*", "*client-id=*", "ip=*", "*<default>", "*CN=*")
FEW_GLOBS = st.lists(st.sampled_from(GLOBS), max_size=2)
SELECTIONS = st.one_of(st.just(ALL), st.builds(Selection, FEW_GLOBS, FEW_GLOBS))
"""Which part of a plan is asked for."""
