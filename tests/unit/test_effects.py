"""Which limit applies, why, and what a change does to it."""

from __future__ import annotations

from quotaform.model.entity import Entity
from quotaform.resolve.effect import make_effects
from tests.builder import PRODUCER


def test_names_whose_value_is_no_number_are_no_different_from_it() -> None:
    """NaN is not equal to itself, so that all of them were counted."""
    nan = {PRODUCER: float("nan")}
    quotas = {Entity(user="a"): nan, Entity(user="a", client_id="x"): {PRODUCER: float("nan")}, Entity(user="b"): nan}
    ((own,),) = make_effects(quotas, {Entity(user="a"): {PRODUCER: float("nan")}}, [(Entity(user="a"), (PRODUCER,))])
    assert own.differs == {}
    default = {Entity(user=None): {PRODUCER: float("nan")}}
    ((everybody,),) = make_effects(quotas, default, [(Entity(user=None), (PRODUCER,))])
    assert everybody.differs == {}
