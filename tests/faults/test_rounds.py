"""A few rounds of `make faults`, with seeds whose faults come at different moments of an apply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.cluster_round import Arena
from tests.faults.scenario import make_scenario
from tests.faulty_sandbox import FaultySandbox

pytestmark = pytest.mark.workflow

SIZE = 40
REVERTED = {("SIGKILL", 8)}
"""Killed when the answer to its write passes, and then reverted."""


@pytest.fixture(scope="module")
def arena(three_brokers: FaultySandbox) -> Iterator[Arena]:
    made = Arena(three_brokers)
    yield made
    made.close()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("cut", 1), ("cut", 2), ("SIGINT", 1), ("SIGINT twice", 2), ("SIGTERM", 1), ("SIGHUP", 1), ("SIGKILL", 8),
        ("corrupt", 1), ("corrupt", 2), ("reset", 1), ("drip", 1), ("delay", 1), ("broker killed", 2),
        ("broker frozen", 2), ("controller killed", 2), ("controller frozen", 1),
    ],
)  # fmt: skip
def test_an_apply_says_what_the_brokers_hold_whatever_happens_to_it(arena: Arena, kind: str, seed: int) -> None:
    verdict = arena.play(make_scenario(seed, kind, SIZE), reverts=(kind, seed) in REVERTED)
    assert not verdict.problems
    assert verdict.was_reached
