"""Which limit applies, why, and what a change does to it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from quotaform.core.effects import NO_EFFECT, Direction, Effect, make_effects
from quotaform.core.entity_change import EntityChange
from quotaform.core.resolve.entry import NO_LIMIT, Effective, effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER, REQUEST, plan_of

ALICE, ANYBODY = Entity(user="alice"), Entity(user=None)
APP1, ANY_CLIENT = Entity(client_id="app1"), Entity(client_id=None)
ALICE_APP1, ALICE_ANY = Entity(user="alice", client_id="app1"), Entity(user="alice", client_id=None)
ANY_APP1, ANY_ANY = Entity(user=None, client_id="app1"), Entity(user=None, client_id=None)


@dataclass(frozen=True)
class Case:
    """A request of a user with a client-id, and what limits it: value, source and level; nothing is `None`."""

    quotas: Quotas
    user: str
    client: str
    value: float | None
    source: Entity | None
    level: int | None
    key: str = PRODUCER


BY_KEY: Quotas = {
    ALICE_APP1: {PRODUCER: 1e6},
    ALICE: {PRODUCER: 2e6, CONSUMER: 3e6},
    ANYBODY: {REQUEST: 50.0},
    APP1: {MUTATION: 5.0},
}
DEFAULTS: Quotas = {ANY_ANY: {PRODUCER: 3.0}, ANYBODY: {PRODUCER: 4.0}, APP1: {PRODUCER: 8.0}}
LITERAL: Quotas = {Entity(user="<default>"): {PRODUCER: 1.0}, ANYBODY: {PRODUCER: 2.0}}
OWN_CLIENTS: Quotas = {ALICE_ANY: {PRODUCER: 5.0}, ALICE: {PRODUCER: 10.0}}
USER_OVER_PAIR: Quotas = {ALICE: {PRODUCER: 9.0}, ANY_APP1: {PRODUCER: 7.0}}
NO_USER: Quotas = {ALICE_ANY: {PRODUCER: 5.0}, ANY_CLIENT: {PRODUCER: 6.0}}

CASES = {
    "each key goes its own way: the pair's": Case(BY_KEY, "alice", "app1", 1e6, ALICE_APP1, 1),
    "each key goes its own way: the user's": Case(BY_KEY, "alice", "app1", 3e6, ALICE, 3, CONSUMER),
    "each key goes its own way: any user's": Case(BY_KEY, "alice", "app1", 50.0, ANYBODY, 6, REQUEST),
    "each key goes its own way: the client's": Case(BY_KEY, "alice", "app1", 5.0, APP1, 7, MUTATION),
    "a user wins over its client under any user": Case(USER_OVER_PAIR, "alice", "app1", 9.0, ALICE, 3),
    "other users have the client under any user": Case(USER_OVER_PAIR, "bob", "app1", 7.0, ANY_APP1, 4),
    "a user's default client wins over the user": Case(OWN_CLIENTS, "alice", "app1", 5.0, ALICE_ANY, 2),
    "whichever client it is": Case(OWN_CLIENTS, "alice", "zzz", 5.0, ALICE_ANY, 2),
    "but not without a client-id": Case(OWN_CLIENTS, "alice", "", 10.0, ALICE, 3),
    "the default pair hides a client": Case(DEFAULTS, "bob", "app1", 3.0, ANY_ANY, 5),
    "an empty client-id knows no default client": Case(DEFAULTS, "bob", "", 4.0, ANYBODY, 6),
    "the default client comes last": Case({ANY_CLIENT: {PRODUCER: 6.0}}, "bob", "zzz", 6.0, ANY_CLIENT, 8),
    "and not without a client-id": Case({ANY_CLIENT: {PRODUCER: 6.0}}, "bob", "", None, None, None),
    "an empty client-id can be without limits": Case(NO_USER, "alice", "", None, None, None),
    "a user called <default>": Case(LITERAL, "<default>", "x", 1.0, Entity(user="<default>"), 3),
    "is not everybody": Case(LITERAL, "bob", "x", 2.0, ANYBODY, 6),
    "anonymous clients have a name": Case(
        {Entity(user="ANONYMOUS"): {PRODUCER: 5.0}, ANYBODY: {PRODUCER: 9.0}},
        "ANONYMOUS",
        "x",
        5.0,
        Entity(user="ANONYMOUS"),
        3,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_first_level_that_holds_the_key_wins(case: Case) -> None:
    found = effective(QuotaIndex(case.quotas).entries((case.user, case.client)), case.key)
    assert (found.value, found.source, found.level and found.level.number) == (case.value, case.source, case.level)


def test_an_entity_with_another_key_does_not_stand_in_the_way() -> None:
    found = effective(QuotaIndex(BY_KEY).entries(("alice", "app1")), "future_rate")
    assert found == NO_LIMIT


def test_an_address_without_its_own_entry_has_the_default() -> None:
    index = QuotaIndex({Entity(ip="10.0.0.1"): {CONNECTION: 5.0}, Entity(ip=None): {CONNECTION: 9.0}})
    assert effective(index.entries(("10.0.0.1",)), CONNECTION).value == 5.0
    assert effective(index.entries(("10.0.0.2",)), CONNECTION).source == Entity(ip=None)


def test_a_shape_that_no_broker_resolves_limits_nobody_and_has_no_effect() -> None:
    odd = Entity({"user": "alice", "group": "g"})
    assert effective(QuotaIndex({odd: {PRODUCER: 1.0}}).entries(("alice", "app1")), PRODUCER) == NO_LIMIT
    assert list(make_effects({}, {odd: {PRODUCER: 1.0}}, [(odd, (PRODUCER,))])) == [(NO_EFFECT,)]


def effect_of(change: EntityChange, key: str = PRODUCER) -> Effect:
    return next(effect for row, effect in zip(change.changes, change.effects, strict=True) if row.key == key)


def only(wanted: Quotas, actual: Quotas) -> EntityChange:
    (change,) = plan_of(wanted, actual).changes
    return change


def test_a_change_under_a_stronger_entry_is_shadowed_and_moves_nothing() -> None:
    change = only({ALICE: {PRODUCER: 3.0}}, {ALICE: {PRODUCER: 1.0}, ALICE_ANY: {PRODUCER: 2.0}})
    effect = effect_of(change)
    assert effect.before == effect.after
    assert (effect.after.value, effect.after.source) == (2.0, ALICE_ANY)
    assert effect.shadowed_by(ALICE, 3.0) == ALICE_ANY
    assert change.direction is Direction.NONE


def test_removing_what_was_shadowed_moves_nothing() -> None:
    effect = effect_of(only({APP1: {}}, {APP1: {PRODUCER: 8.0}, ANYBODY: {PRODUCER: 4.0}}))
    assert effect.shadowed_by(APP1, None) == ANYBODY
    assert effect.direction(PRODUCER) is Direction.NONE


def test_the_winner_itself_is_not_shadowed() -> None:
    effect = effect_of(only({ALICE: {PRODUCER: 3.0}}, {ALICE: {PRODUCER: 1.0}, ANYBODY: {PRODUCER: 9.0}}))
    assert effect.shadowed_by(ALICE, 3.0) is None


def test_a_removed_value_falls_back_to_the_next_level() -> None:
    change = only({ALICE: {}}, {ALICE: {PRODUCER: 5.0}, ANYBODY: {PRODUCER: 20.0}})
    effect = effect_of(change)
    assert (effect.before.value, effect.before.source) == (5.0, ALICE)
    assert (effect.after.value, effect.after.source) == (20.0, ANYBODY)
    assert change.direction is Direction.LOOSEN
    assert not change.becomes_unlimited


def test_a_removed_value_without_fallback_becomes_unlimited() -> None:
    change = only({ALICE: {}}, {ALICE: {PRODUCER: 5.0}, ANY_APP1: {PRODUCER: 20.0}})
    assert effect_of(change).after == NO_LIMIT
    assert change.direction is Direction.LOOSEN
    assert change.becomes_unlimited


def test_a_new_value_under_a_default_can_loosen() -> None:
    change = only({ALICE: {PRODUCER: 30.0}}, {ANYBODY: {PRODUCER: 20.0}})
    assert effect_of(change).before.source == ANYBODY
    assert change.direction is Direction.LOOSEN


def test_a_new_value_where_nothing_limited_tightens() -> None:
    change = only({ALICE: {PRODUCER: 30.0}}, {})
    assert effect_of(change).before == NO_LIMIT
    assert change.direction is Direction.TIGHTEN


def test_one_key_up_and_one_down_is_mixed() -> None:
    change = only({ALICE: {PRODUCER: 2.0, CONSUMER: 1.0}}, {ALICE: {PRODUCER: 1.0, CONSUMER: 2.0}})
    assert change.direction is Direction.MIXED


@pytest.mark.parametrize(
    ("key", "before", "after", "unlimited", "direction"),
    [
        (PRODUCER, 1.0, 2.0**63, True, Direction.LOOSEN),
        (PRODUCER, 1.0, 2.0**62, False, Direction.LOOSEN),
        (REQUEST, 1.0, 2147483647.0, True, Direction.LOOSEN),
        (REQUEST, 1.0, 1e300, True, Direction.LOOSEN),
        (PRODUCER, 1.0, 2147483647.0, False, Direction.LOOSEN),
        (REQUEST, 1.0, None, True, Direction.LOOSEN),
        (PRODUCER, 2.0**63, None, False, Direction.NONE),
        (PRODUCER, None, 2.0**63, False, Direction.NONE),
        (REQUEST, 1e300, 2147483647.0, False, Direction.NONE),
        (PRODUCER, 2.0**63, 1.0, False, Direction.TIGHTEN),
        (REQUEST, float("inf"), 5.0, False, Direction.TIGHTEN),
        ("future_rate", 1.0, 1e300, False, Direction.LOOSEN),
        ("future_rate", 1.0, float("inf"), True, Direction.LOOSEN),
        (PRODUCER, float("nan"), 5.0, False, Direction.NONE),
        (PRODUCER, float("nan"), None, True, Direction.NONE),
    ],
)
def test_the_maximum_of_a_key_is_no_limit(
    key: str, before: float | None, after: float | None, unlimited: bool, direction: Direction
) -> None:
    effect = Effect(Effective(before), Effective(after))
    assert effect.becomes_unlimited(key) is unlimited
    assert effect.direction(key) is direction


def test_falling_back_to_the_written_maximum_is_unlimited() -> None:
    change = only({ALICE: {}}, {ALICE: {PRODUCER: 5.0}, ANYBODY: {PRODUCER: 2.0**63}})
    assert change.becomes_unlimited


def test_named_clients_of_a_user_that_have_another_value_are_counted() -> None:
    actual = {
        ALICE: {PRODUCER: 1.0},
        Entity(user="alice", client_id="a"): {PRODUCER: 7.0},
        Entity(user="alice", client_id="b"): {PRODUCER: 8.0},
        Entity(user="alice", client_id="same"): {PRODUCER: 2.0},
        Entity(user="alice", client_id="other-key"): {CONSUMER: 8.0},
        Entity(user="bob", client_id="c"): {PRODUCER: 9.0},
        ANY_APP1: {PRODUCER: 9.0},
    }
    effect = effect_of(only({ALICE: {PRODUCER: 2.0}}, actual))
    assert effect.differs == {"client-id": 2}


def test_clients_differ_where_a_user_is_not_limited_itself() -> None:
    """Without a value of alice's own, her clients fall through to what any user's client has."""
    actual = {ALICE: {PRODUCER: 1.0}, ANY_APP1: {PRODUCER: 9.0}, ANYBODY: {PRODUCER: 4.0}}
    effect = effect_of(only({ALICE: {}}, actual))
    assert (effect.after.value, effect.after.source) == (4.0, ANYBODY)
    assert effect.differs == {"client-id": 1}


def test_a_default_counts_users_and_clients_that_have_another_value() -> None:
    actual = {
        ANYBODY: {PRODUCER: 1.0},
        ALICE: {PRODUCER: 5.0},
        Entity(user="bob"): {PRODUCER: 2.0},
        Entity(user="carol"): {CONSUMER: 5.0},
        Entity(user="dave", client_id="x"): {PRODUCER: 5.0},
        ANY_APP1: {PRODUCER: 6.0},
        Entity(client_id="hidden"): {PRODUCER: 6.0},
    }
    effect = effect_of(only({ANYBODY: {PRODUCER: 2.0}}, actual))
    assert effect.differs == {"user": 1, "client-id": 1}


def test_addresses_with_their_own_limit_differ_from_the_default() -> None:
    actual = {
        Entity(ip="10.0.0.1"): {CONNECTION: 5.0},
        Entity(ip="10.0.0.2"): {CONNECTION: 9.0},
        Entity(ip="10.0.0.3"): {CONNECTION: 7.0},
    }
    assert effect_of(only({Entity(ip=None): {CONNECTION: 9.0}}, actual), CONNECTION).differs == {"ip": 2}
    assert effect_of(only({Entity(ip="10.0.0.1"): {CONNECTION: 6.0}}, actual), CONNECTION).differs == {}


def test_an_address_is_limited_by_the_entry_that_spells_it_otherwise() -> None:
    """Effects looked for the exact spelling: a new entry was shown as the first limit of its address."""
    alias = Entity(ip="::ffff:10.0.0.1")
    effect = effect_of(only({Entity(ip="10.0.0.1"): {CONNECTION: 9.0}}, {alias: {CONNECTION: 5.0}}), CONNECTION)
    assert (effect.before.value, effect.before.source) == (5.0, alias)
    assert (effect.after.value, effect.after.source) == (9.0, Entity(ip="10.0.0.1"))


def test_a_client_id_that_is_empty_is_no_name_of_a_client() -> None:
    """An entry for an empty client-id, which no request meets, was counted as a client that differs."""
    quotas: Quotas = {Entity(client_id=""): {PRODUCER: 9.0}, ANY_CLIENT: {PRODUCER: 1.0}}
    assert effect_of(only({ANY_CLIENT: {PRODUCER: 2.0}}, quotas)).differs == {}


def test_effects_in_which_no_name_differs_share_the_count_and_the_default() -> None:
    """A plan of 100,000 entities had a dict for each of their keys."""
    plan = plan_of({ALICE: {PRODUCER: 2.0}, Entity(user="bob"): {PRODUCER: 3.0}}, {ANYBODY: {PRODUCER: 1.0}})
    one, other = map(effect_of, plan.changes)
    assert one.differs is other.differs
    assert one.before is other.before


def test_all_changes_of_a_plan_count_on_the_side_after_it() -> None:
    """The default goes and alice gets her own: neither is resolved as if the other stayed."""
    wanted: Quotas = {ANYBODY: {}, ALICE: {PRODUCER: 5.0}}
    plan = plan_of(wanted, {ANYBODY: {PRODUCER: 1.0}})
    effects = {change.entity: effect_of(change) for change in plan.changes}
    assert (effects[ALICE].before.source, effects[ALICE].after.value) == (ANYBODY, 5.0)
    assert effects[ANYBODY].after == NO_LIMIT
    assert effects[ANYBODY].differs == {"user": 1}


def test_names_whose_value_is_no_number_are_no_different_from_it() -> None:
    """NaN is not equal to itself, so that all of them were counted."""
    nan = {PRODUCER: float("nan")}
    quotas = {Entity(user="a"): nan, Entity(user="a", client_id="x"): {PRODUCER: float("nan")}, Entity(user="b"): nan}
    ((own,),) = make_effects(quotas, {Entity(user="a"): {PRODUCER: float("nan")}}, [(Entity(user="a"), (PRODUCER,))])
    assert own.differs == {}
    default = {Entity(user=None): {PRODUCER: float("nan")}}
    ((everybody,),) = make_effects(quotas, default, [(Entity(user=None), (PRODUCER,))])
    assert everybody.differs == {}
