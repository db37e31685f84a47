"""Which limit applies, why, and what a change does to it."""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.plan.change import EntityChange
from quotaform.resolve.effect import NO_EFFECT, Direction, Effect, make_effects
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request import NO_LIMIT, Effective, effective
from tests.builder import CONNECTION, CONSUMER, PRODUCER, REQUEST, plan_of

ALICE, ANYBODY = Entity(user="alice"), Entity(user=None)
APP1, ANY_CLIENT = Entity(client_id="app1"), Entity(client_id=None)
ALICE_APP1, ALICE_ANY = Entity(user="alice", client_id="app1"), Entity(user="alice", client_id=None)
ANY_APP1, ANY_ANY = Entity(user=None, client_id="app1"), Entity(user=None, client_id=None)


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


def test_a_removed_value_without_fallback_becomes_unlimited() -> None:
    change = only({ALICE: {}}, {ALICE: {PRODUCER: 5.0}, ANY_APP1: {PRODUCER: 20.0}})
    assert effect_of(change).after == NO_LIMIT
    assert change.direction is Direction.LOOSEN
    assert change.becomes_unlimited


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


def test_addresses_with_their_own_limit_differ_from_the_default() -> None:
    actual = {
        Entity(ip="10.0.0.1"): {CONNECTION: 5.0},
        Entity(ip="10.0.0.2"): {CONNECTION: 9.0},
        Entity(ip="10.0.0.3"): {CONNECTION: 7.0},
    }
    assert effect_of(only({Entity(ip=None): {CONNECTION: 9.0}}, actual), CONNECTION).differs == {"ip": 2}
    assert effect_of(only({Entity(ip="10.0.0.1"): {CONNECTION: 6.0}}, actual), CONNECTION).differs == {}
