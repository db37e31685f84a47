"""Which limit applies, why, and what a change does to it."""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from quotaform.resolve.effect import Direction, Effect, make_effects
from quotaform.resolve.request import Effective
from tests.builder import PRODUCER, REQUEST


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


def test_names_whose_value_is_no_number_are_no_different_from_it() -> None:
    """NaN is not equal to itself, so that all of them were counted."""
    nan = {PRODUCER: float("nan")}
    quotas = {Entity(user="a"): nan, Entity(user="a", client_id="x"): {PRODUCER: float("nan")}, Entity(user="b"): nan}
    ((own,),) = make_effects(quotas, {Entity(user="a"): {PRODUCER: float("nan")}}, [(Entity(user="a"), (PRODUCER,))])
    assert own.differs == {}
    default = {Entity(user=None): {PRODUCER: float("nan")}}
    ((everybody,),) = make_effects(quotas, default, [(Entity(user=None), (PRODUCER,))])
    assert everybody.differs == {}
