"""What resolve says is what a broker does: real producers under quotas of all eight levels.

All requests of a case produce at the same time. Each is expected to get the rate that resolve names, together with the
requests that share its bucket, and to be throttled; or, if resolve calls it unlimited, not to be throttled at all.
The limits of a case are a factor of three or more apart, so that a rate says which level is in force.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import monotonic, sleep
from typing import Final

import pytest

from quotaform import Entity, QuotaAdmin
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.model.units import is_unlimited
from quotaform.resolve.index import Resolved
from quotaform.sandbox import Sandbox
from tests.broker import become, client_settings
from tests.traffic import connected, make_batch, open_topic, send
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

KEY: Final = PRODUCER_BYTE_RATE.name
TOPIC: Final = "enforcement"
RECORD: Final = bytes(4000)
OFFERED: Final = 1_000_000
"""Bytes per second that each producer has to send; far above all limits."""
WARM_UP: Final = 2.0
"""Seconds until the broker's windows are full."""
MEASURED: Final = 4.0
ATTEMPTS: Final = 5
"""How often traffic is measured: on a busy machine producers may send too little to be throttled."""

KB: Final = 1000.0
ALICE, BOB = "tenant", "plainuser"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Sandbox]:
    """A broker that knows its users, with windows of 2 seconds in place of 10."""
    with Sandbox(secured=True, properties={"quota.window.num": "3"}) as sandbox:
        open_topic(sandbox, TOPIC)
        yield sandbox


@pytest.fixture
def admin(kafka: Sandbox) -> Iterator[QuotaAdmin]:
    """The quotas of the broker, none before and none after."""
    properties = client_settings(kafka, "SASL_PLAINTEXT")
    with QuotaAdmin.connect(kafka.bootstrap_servers, properties=properties) as client:
        yield client
        become(client, {})


@dataclass
class Traffic:
    """A producer of one user with one client-id, which sends as fast as it may."""

    user: str
    client_id: str
    taken: int = 0  # bytes that the broker took so far
    throttled: int = 0  # the longest that it told to wait, in milliseconds
    rate: float = 0.0  # bytes per second that it took in the measured time

    def produce(self, sandbox: Sandbox, batch: bytes, is_over: Event) -> None:
        """Send until it is over."""
        with connected(sandbox, self.user, self.client_id) as connection:
            begin = monotonic()
            while not is_over.is_set():
                if self.taken > OFFERED * (monotonic() - begin):
                    sleep(0.002)
                    continue
                self.throttled = max(self.throttled, send(connection, TOPIC, batch))
                self.taken += len(RECORD)


def produce(sandbox: Sandbox, requests: list[tuple[str, str]]) -> list[Traffic]:
    """Let all produce at once, and measure once the broker's windows are full."""
    traffic = [Traffic(user, client_id) for user, client_id in requests]
    is_over = Event()
    with ThreadPoolExecutor(len(traffic)) as pool:
        runs = [pool.submit(each.produce, sandbox, make_batch(RECORD), is_over) for each in traffic]
        try:
            wait_until(lambda: all(each.taken for each in traffic))
            sleep(WARM_UP)
            begin, before = monotonic(), [each.taken for each in traffic]
            sleep(MEASURED)
            seconds = monotonic() - begin
            for each, taken in zip(traffic, before, strict=True):
                each.rate = (each.taken - taken) / seconds
        finally:
            is_over.set()
        for run in runs:
            run.result()
    return traffic


def bucket_of(resolved: Resolved, each: Traffic) -> tuple[str, ...]:
    """Which rate a request counts towards, as its level of precedence says."""
    assert resolved.level is not None
    names = {"user": each.user, "client-id": each.client_id}
    return (resolved.level.source, *(names[entity_type] for entity_type in resolved.level.bucket))


def require_traffic(traffic: list[Traffic], found: dict[tuple[str, str], Resolved]) -> None:
    """Make sure that what was measured is what was resolved."""
    limits = [each.value for each in found.values() if each.value is not None and each.value < OFFERED]
    buckets: dict[tuple[str, ...], list[Traffic]] = defaultdict(list)
    for each in traffic:
        resolved = found[each.user, each.client_id]
        print(f"{each}: {resolved.source_name} {resolved.value}")
        if is_unlimited(PRODUCER_BYTE_RATE, resolved.value):
            assert each.throttled == 0
            assert each.rate > 1.5 * max(limits)
        else:
            assert each.throttled > 0
            buckets[bucket_of(resolved, each)].append(each)
    for members in buckets.values():
        limit = found[members[0].user, members[0].client_id].value or 0.0
        assert 0.5 * limit < sum(each.rate for each in members) < 1.5 * limit


@pytest.mark.parametrize(
    ("quotas", "sources"),
    [
        pytest.param(
            {
                Entity(user=ALICE, client_id="app1"): 20 * KB,
                Entity(user=ALICE, client_id=None): 60 * KB,
                Entity(user=ALICE): 180 * KB,
                Entity(user=None, client_id="app2"): 180 * KB,
                Entity(user=None): 60 * KB,
                Entity(client_id="app2"): 10 * KB,
                Entity(client_id=None): 10 * KB,
            },
            {
                (ALICE, "app1"): "ClientInUser",
                (ALICE, "x"): "DefaultClientInUser",
                (ALICE, "y"): "DefaultClientInUser",
                (ALICE, ""): "User",
                (BOB, "app2"): "ClientInDefaultUser",
                (BOB, "x"): "DefaultUser",
                (BOB, "y"): "DefaultUser",
            },
            id="levels with users",
        ),
        pytest.param(
            {
                Entity(user=ALICE): 90 * KB,
                Entity(user=None, client_id=None): 30 * KB,
                Entity(client_id="x"): 10 * KB,
            },
            {
                (ALICE, "x"): "User",
                (ALICE, "y"): "User",
                (ALICE, ""): "User",
                (BOB, "x"): "DefaultClientInDefaultUser",
                (BOB, "y"): "DefaultClientInDefaultUser",
                (BOB, ""): None,
            },
            id="the quota of a user is one rate for all its client-ids",
        ),
        pytest.param(
            {Entity(client_id="app1"): 120 * KB, Entity(client_id=None): 40 * KB},
            {
                (ALICE, "app1"): "Client",
                (BOB, "app1"): "Client",
                (ALICE, "x"): "DefaultClient",
                (BOB, "x"): "DefaultClient",
                (BOB, ""): None,
            },
            id="quotas of client-ids are shared by users and miss empty client-ids",
        ),
        pytest.param(
            {Entity(user=ALICE): PRODUCER_BYTE_RATE.maximum, Entity(user=None): 50 * KB},
            {(ALICE, "x"): "User", (BOB, "x"): "DefaultUser"},
            id="an explicit unlimited lifts a default",
        ),
    ],
)
def test_a_broker_throttles_as_resolved(
    kafka: Sandbox, admin: QuotaAdmin, quotas: dict[Entity, float], sources: dict[tuple[str, str], str | None]
) -> None:
    become(admin, {entity: {KEY: value} for entity, value in quotas.items()})
    sleep(0.2)  # A broker shows a quota a moment before it enforces it.
    found = {(user, client_id): admin.resolve(user=user, client_id=client_id)[KEY] for user, client_id in sources}
    assert {request: resolved.source_name for request, resolved in found.items()} == sources
    for attempt in range(1, ATTEMPTS + 1):
        try:
            require_traffic(produce(kafka, list(sources)), found)
            break
        except AssertionError:
            if attempt == ATTEMPTS:
                raise
