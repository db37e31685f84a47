"""What a change does to the effective limit, in a few words."""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Change
from quotaform.resolve.effect import Effect, effect_text, fallback_text, ratio_text, value_text
from quotaform.resolve.request import NO_LIMIT, Effective
from tests.builder import CONNECTION, PRODUCER, REQUEST

MIB = 1024.0**2
NAN = float("nan")
ALICE, ANYBODY, ALICE_ANY = Entity(user="alice"), Entity(user=None), Entity(user="alice", client_id=None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (10.0, 20.0, "+100%"),
        (10.0, 20.1, "x2"),
        (10.0, 21.0, "x2.1"),
        (5.0, 20.0, "x4"),
        (10.0, 99.9, "x10"),
        (1.0, 1e9, "x1000000000"),
        (10.0, 15.0, "+50%"),
        (10.0, 10.5, "+5%"),
        (10.0, 10.01, "+0.1%"),
        (3.0, 3.0001, "+0.003%"),
        (1e9, 1e9 + 1, "+<0.001%"),
        (1e9 + 1, 1e9, "-<0.001%"),
        (20.0, 10.0, "-50%"),
        (3.0, 1.0, "-66.7%"),
        (100.0, 1.0, "-99%"),
        (1000.0, 1.0, "-99.9%"),
        (10_000.0, 4.0, "-99.9%"),
        (1e9, 1.0, "-99.9%"),
        (5e-324, 1e308, None),
        (0.0, 1.0, ""),
        (-1.0, 1.0, ""),
        (NAN, 1.0, ""),
    ],
)
def test_a_ratio_is_percents_up_to_doubling_and_else_a_factor(
    before: float, after: float, expected: str | None
) -> None:
    text = ratio_text(before, after)
    assert text.startswith("x") if expected is None else text == expected
    assert "e" not in text


def effect(before: Effective, after: Effective, **differs: int) -> Effect:
    return Effect(before, after, {name.replace("_", "-"): count for name, count in differs.items()})


def own(value: float) -> Effective:
    return Effective(value, ALICE)


@pytest.mark.parametrize(
    ("change", "effect", "expected"),
    [
        (Change(ALICE, PRODUCER, MIB, 2 * MIB), effect(own(MIB), own(2 * MIB)), "(+100%, loosen)"),
        (Change(ALICE, PRODUCER, 2 * MIB, MIB), effect(own(2 * MIB), own(MIB)), "(-50%, tighten)"),
        (Change(ALICE, PRODUCER, MIB, 2.0**63), effect(own(MIB), own(2.0**63)), "(loosen, UNLIMITED)"),
        (Change(ALICE, PRODUCER, MIB, None), effect(own(MIB), NO_LIMIT), "(loosen, UNLIMITED)"),
        (Change(ALICE, PRODUCER, MIB, None), effect(own(MIB), Effective(4 * MIB, ANYBODY)), "(x4, loosen)"),
        (Change(ALICE, PRODUCER, None, MIB), effect(NO_LIMIT, own(MIB)), "(was unlimited; tighten)"),
        (
            Change(ALICE, PRODUCER, None, MIB),
            effect(Effective(4 * MIB, ANYBODY), own(MIB)),
            "(was 4 MiB/s from user=<default>; -75%, tighten)",
        ),
        (
            Change(ALICE, PRODUCER, None, MIB),
            effect(Effective(MIB, ANYBODY), own(MIB)),
            "(was 1 MiB/s from user=<default>)",
        ),
        (
            Change(ALICE, PRODUCER, MIB, 2 * MIB),
            effect(Effective(5 * MIB, ALICE_ANY), Effective(5 * MIB, ALICE_ANY)),
            "(no effect: shadowed by user=alice,client-id=<default>)",
        ),
        (
            Change(ALICE, PRODUCER, MIB, None),
            effect(Effective(5 * MIB, ALICE_ANY), Effective(5 * MIB, ALICE_ANY)),
            "(no effect: shadowed by user=alice,client-id=<default>)",
        ),
        (
            Change(ALICE, PRODUCER, MIB, 2 * MIB),
            effect(own(MIB), Effective(5 * MIB, ALICE_ANY)),
            "(shadowed by user=alice,client-id=<default>; effective 1 MiB/s from user=alice -> "
            "5 MiB/s from user=alice,client-id=<default>; x5, loosen)",
        ),
        (
            Change(ALICE, PRODUCER, MIB, 2 * MIB),
            effect(Effective(5 * MIB, ALICE_ANY), own(2 * MIB)),
            "(effective 5 MiB/s from user=alice,client-id=<default> -> 2 MiB/s from user=alice; -60%, tighten)",
        ),
        (
            Change(ALICE, PRODUCER, MIB, 2 * MIB),
            effect(own(MIB), own(2 * MIB), client_id=3),
            "(+100%, loosen; differs for 3 client-ids)",
        ),
        (
            Change(ANYBODY, PRODUCER, MIB, 2 * MIB),
            effect(Effective(MIB, ANYBODY), Effective(2 * MIB, ANYBODY), user=1, client_id=2),
            "(+100%, loosen; differs for 2 client-ids and 1 user)",
        ),
        (
            Change(Entity(ip=None), CONNECTION, 5.0, 6.0),
            effect(Effective(5.0, Entity(ip=None)), Effective(6.0, Entity(ip=None)), ip=2),
            "(+20%, loosen; differs for 2 addresses)",
        ),
        (Change(ALICE, PRODUCER, NAN, MIB), effect(own(NAN), own(MIB)), ""),
        (Change(ALICE, PRODUCER, NAN, NAN), effect(own(NAN), own(NAN)), ""),
    ],
)
def test_a_note_says_what_was_what_becomes_and_for_whom_it_is_another(
    change: Change, effect: Effect, expected: str
) -> None:
    assert effect_text(change, effect) == expected


def test_what_a_removed_value_falls_back_to() -> None:
    assert fallback_text(PRODUCER, NO_LIMIT) == "(no fallback: unlimited)"
    assert fallback_text(PRODUCER, Effective(20 * MIB, ANYBODY)) == "(falls back to 20 MiB/s from user=<default>)"


def test_a_value_of_an_unknown_key_is_a_plain_number() -> None:
    assert value_text("future_rate", 1e20) == "100000000000000000000"
    assert value_text(REQUEST, 12.5) == "12.5%"
    assert value_text(PRODUCER, NAN) == "NaN"
