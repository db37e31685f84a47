"""Resolving agrees with a slow oracle: one, many, on Spark's terms, and before and after a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.precedence import CLIENT_PRECEDENCE, IP_PRECEDENCE, Level, Precedence, level_of
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Desired, Quotas, Values, same_value
from quotaform.plan.blast_radius import (
    MOST_LARGEST,
    LimitChange,
    LimitCount,
    LimitDirection,
    Principals,
    make_blast_radius,
    principal_order,
    size_order,
)
from quotaform.plan.plan import Plan
from quotaform.resolve.effect import make_effects
from quotaform.resolve.index import (
    NOT_LIMITED,
    PRECEDENCE_OF,
    UNMENTIONED,
    Effective,
    QuotaIndex,
    Request,
    Resolved,
    effective,
    representative,
    request_of,
)
from quotaform.resolve.resolve import KeyResolution, ResolveOptions, make_resolution
from tests.builder import after_apply, plan_of, resolve_entities
from tests.strategies import FEW_IPS, FEW_NAMES, IPS, LIVE_ENTITIES, desired, live_quotas, quotas, values_for

SPELLINGS = ("10.0.0.1", "::ffff:10.0.0.1", "10.1", "127.0.0.1", "localhost", "0:0::1", "broker.example", *IPS)
ANY_NAME = st.one_of(FEW_NAMES, st.just(UNMENTIONED))
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.tuples(ANY_NAME, st.one_of(ANY_NAME, st.just(""))),
    st.tuples(st.sampled_from((*SPELLINGS, UNMENTIONED))),
)
EMPTY = (Entity(client_id=""), Entity(user="alice", client_id=""), Entity(user=None, client_id=""))
ENTITIES = st.one_of(
    LIVE_ENTITIES, st.sampled_from(EMPTY), st.builds(lambda ip: Entity(ip=ip), st.sampled_from(SPELLINGS))
)
KEYS = ("producer_byte_rate", "request_percentage", "connection_creation_rate", "future_rate")


@st.composite
def all_quotas(draw: st.DrawFn) -> dict[Entity, Values]:
    """What a cluster may hold, with many empty client-ids and addresses that are spelled in several ways."""
    found: dict[Entity, Values] = dict(draw(live_quotas(max_size=12)))
    for entity in draw(st.lists(st.sampled_from([*EMPTY, *(Entity(ip=ip) for ip in SPELLINGS)]), max_size=4)):
        found[entity] = draw(values_for(entity))
    return found


def joined(quotas: Quotas, request: Request) -> list[tuple[Level, Entity]]:
    """The entries that a request meets, by the steps that the table of precedence gives to an engine that joins."""
    precedence = PRECEDENCE_OF[len(request)]
    row = dict(zip(precedence.columns, request, strict=True))
    met = []
    for level in precedence.levels:
        if "client-id" in level.bucket and row["client-id"] == "":
            continue
        found = [
            entity
            for entity in quotas
            if level_of(entity) == level
            and all(
                spelled(precedence, column, entity.names[column]) == spelled(precedence, column, row[column])
                for column in level.named
            )
        ]
        met += [(level, entity) for entity in min_spelling(precedence, found, row)]
    return met


def spelled(precedence: Precedence, column: str, name: object) -> object:
    canonical = precedence.canonical.get(column)
    return (canonical(name) or name) if canonical and isinstance(name, str) else name


def min_spelling(precedence: Precedence, found: list[Entity], row: Mapping[str, object]) -> list[Entity]:
    """Of several entries for one name: the request's own spelling, then the canonical one, then by code points."""

    def rank(entity: Entity) -> list[tuple[bool, bool, str]]:
        return [
            (name != row[column], name != spelled(precedence, column, name), name or "")
            for column, name in entity.parts
        ]

    return sorted(found, key=rank)[:1]


def same(one: Effective, other: Effective) -> bool:
    return same_value(one.value, other.value) and one[1:] == other[1:]


@given(all_quotas(), REQUESTS)
def test_looking_up_and_joining_by_the_table_meet_the_same_entries(quotas: Quotas, request: Request) -> None:
    found = [(entry.level, entry.entity) for entry in QuotaIndex(quotas).entries(request)]
    assert found == joined(quotas, request)


@given(all_quotas(), st.lists(REQUESTS, min_size=1, max_size=4))
def test_a_whole_resolution_is_that_of_each_key_alone(quotas: Quotas, requests: list[Request]) -> None:
    index = QuotaIndex(quotas)
    for request in requests:
        whole = index.resolve(request)
        for key in {*KEYS, *whole}:
            resolved = whole.get(key, Resolved())
            entries = index.entries(request)
            assert same(resolved.effective, effective(entries, key))
            holding = [entry for entry in entries if key in entry.values]
            assert [entry.source for entry in resolved.entries] == [entry.entity for entry in holding]


@given(all_quotas(), all_quotas(), ENTITIES)
def test_the_effects_of_a_plan_are_what_its_two_sides_resolve_to(
    actual: Quotas, changed: Quotas, entity: Entity
) -> None:
    gone = set(list(actual)[::2])
    planned: Quotas = {**{entity: {} for entity in gone}, **changed}
    after = {each: values for each, values in {**actual, **planned}.items() if values}
    (effects,) = make_effects(actual, planned, [(entity, KEYS)])
    request = representative(entity)
    for key, effect in zip(KEYS, effects, strict=True):
        for found, held in ((effect.before, actual), (effect.after, after)):
            resolved = Resolved() if request is None else QuotaIndex(held).resolve(request).get(key, Resolved())
            assert same(found, resolved.effective)


@given(all_quotas(), all_quotas(), ENTITIES)
def test_the_names_that_differ_are_those_that_resolve_to_another_value(
    actual: Quotas, changed: Quotas, entity: Entity
) -> None:
    request = representative(entity)
    if request is None:
        return
    after = {**actual, **changed}
    index = QuotaIndex(after)
    (effects,) = make_effects(actual, changed, [(entity, KEYS)])
    for key, effect in zip(KEYS, effects, strict=True):
        expected = {}
        for place, column in enumerate(PRECEDENCE_OF[len(request)].columns):
            if request[place] is not UNMENTIONED:
                continue
            named = {name for other in after if level_of(other) for kind, name in other.parts if kind == column}
            # An entry with an empty client-id is met by nobody.
            names = {name for name in named if name is not None and (name or column != "client-id")}
            others = [(*request[:place], name, *request[place + 1 :]) for name in names]
            expected[column] = sum(
                not same_value(effective(index.entries(other), key).value, effect.after.value) for other in others
            )
        assert dict(effect.differs) == {column: count for column, count in expected.items() if count}


@given(all_quotas(), all_quotas(), ENTITIES)
def test_what_a_plan_calls_effective_is_what_resolve_answers_for_the_names_of_the_entity(
    actual: Quotas, planned: Quotas, entity: Entity
) -> None:
    """A plan resolved an omitted client-id as one that no quota mentions, and resolve as an empty one."""
    asked = Entity({kind: name for kind, name in entity.parts if name is not None})
    if representative(entity) is None or not asked.parts or "" in asked.names.values():
        return
    (effects,) = make_effects(actual, planned, [(entity, KEYS)])
    live = QuotaIndex(actual)
    detail = ResolveOptions(
        keys=KEYS
    )  # Of a key that this version does not know there is a row only if one asks for it.
    rows = make_resolution(asked, live, live.altered(planned), detail).keys
    found = {row.key: row for row in rows}
    for key, effect in zip(KEYS, effects, strict=True):
        row = found.get(key, KeyResolution(key, Resolved(), Resolved()))
        assert same(effect.before, (row.before or Resolved()).effective)
        assert same(effect.after, row.resolved.effective)
        assert effect.differs == row.resolved.differs


NAMES = ("user", "client-id")


def _principal(request: tuple[object, ...]) -> Entity:
    if len(request) == 1:
        return Entity(ip=str(request[0]))
    return Entity({kind: str(name) for kind, name in zip(NAMES, request, strict=True) if name is not UNMENTIONED})


PRINCIPALS = st.lists(
    REQUESTS.filter(lambda request: request[0] != "" and set(request) != {UNMENTIONED}).map(_principal), max_size=12
)


def known_part(quotas: Quotas) -> dict[Entity, Values]:
    return {entity: {key: values[key] for key in values if key in QUOTA_KEYS} for entity, values in quotas.items()}


NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]
FILES = st.one_of(desired(max_size=12), all_quotas().map(known_part))
"""Also what no file can say: addresses in several spellings."""


def brute_force(principals: list[Entity], actual: Quotas, plan: Plan) -> list[LimitChange]:
    """Resolve everything twice, and compare."""
    planned = after_apply(plan, actual)
    before, after = QuotaIndex(actual), QuotaIndex(planned)

    def limits(principal: Entity) -> list[tuple[str, Resolved, Resolved]]:
        now, then = before.resolve(request_of(principal)), after.resolve(request_of(principal))
        return [(key, now.get(key, NOT_LIMITED), then.get(key, NOT_LIMITED)) for key in {*now, *then}]

    rows = [
        LimitChange(principal, key, now.effective, then.effective)
        for principal in set(principals)
        for key, now, then in limits(principal)
    ]
    return [row for row in rows if row.direction is not None]


def row_of(row: LimitChange) -> tuple[object, ...]:
    limits = [(repr(each.value), each.source, each.level) for each in (row.before, row.after)]
    return row.principal, row.key, limits, row.direction, row.factor


@settings(phases=NO_SHRINKING)
@given(all_quotas(), FILES, PRINCIPALS)
def test_the_rows_are_those_of_resolving_everything_twice(
    actual: Quotas, files: Desired | Mapping[Entity, Values], principals: list[Entity]
) -> None:
    plan = plan_of(files, actual)
    radius, changes = make_blast_radius(Principals.of("list", principals), actual, plan.changes, file="all.csv")
    expected = brute_force(principals, actual, plan)
    assert sorted(map(row_of, changes()), key=repr) == sorted(map(row_of, expected), key=repr)
    assert radius.principals == len(set(principals))
    assert radius.affected == len({row.principal for row in expected})
    assert [row_of(each.limits) for each in radius.largest] == [
        row_of(row)
        for row in sorted(expected, key=lambda row: (size_order(row), principal_order(row.principal), row.key))[
            :MOST_LARGEST
        ]
    ]
    limits = Counter(row.direction for row in expected)
    affected = Counter(direction for _, direction in {(row.principal, row.direction) for row in expected})
    assert radius.counts == {
        each: LimitCount(principals=affected[each], limits=limits[each]) for each in LimitDirection
    }


CLIENT_KEYS, IP_KEYS = CLIENT_PRECEDENCE.keys, IP_PRECEDENCE.keys
OTHER = "a name that no quota mentions"
FEW_USERS = st.one_of(FEW_NAMES, st.just(OTHER))
ASKED = st.one_of(
    st.builds(lambda user, client: Entity(user=user, client_id=client), FEW_USERS, FEW_USERS),
    st.builds(lambda user: Entity(user=user, client_id=""), FEW_USERS),
    st.builds(lambda user: Entity(user=user), FEW_USERS),
    st.builds(lambda client: Entity(client_id=client), FEW_USERS),
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


@given(quotas(max_size=25), st.lists(ASKED, max_size=12))
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


@given(quotas(), ASKED, st.booleans(), st.booleans(), st.lists(st.sampled_from(CLIENT_KEYS + IP_KEYS), max_size=3))
def test_less_detail_only_leaves_out(
    all_quotas: Quotas, request: Entity, inherited: bool, overridden: bool, keys: list[str]
) -> None:
    chosen = tuple(sorted(set(keys), key=key_order))
    whole = {row.key: row for row in make_resolution(request, QuotaIndex(all_quotas)).keys}
    detail = ResolveOptions(keys=chosen, inherited=inherited, overridden=overridden)
    for row in make_resolution(request, QuotaIndex(all_quotas), detail=detail).keys:
        full = whole.pop(row.key)
        assert row.resolved[:2] == full.resolved[:2]
        assert row.resolved.overridden == (full.resolved.overridden if overridden else ())
        assert inherited or row.resolved.source == request
    for row in whole.values():
        assert (chosen and row.key not in chosen) or (not inherited and row.resolved.source != request)
