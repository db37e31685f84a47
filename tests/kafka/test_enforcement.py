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

from quotaform import Alteration, Entity, QuotaAdmin
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.model.quotas import Quotas
from quotaform.model.units import is_unlimited
from quotaform.resolve.request import Resolved
from quotaform.sandbox import Sandbox
from tests.broker import wait_for
from tests.producer import connected, make_batch, open_topic, send
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
    text = kafka.client_properties("SASL_PLAINTEXT")
    properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    with QuotaAdmin.connect(kafka.bootstrap_servers, properties=properties) as client:
        yield client
        live = client.describe()
        client.alter([Alteration(entity, dict.fromkeys(values)) for entity, values in live.items()]).raise_for_errors()


def write(admin: QuotaAdmin, quotas: Quotas) -> None:
    """Set quotas and wait until the broker enforces what it shows."""
    admin.alter([Alteration(entity, values) for entity, values in quotas.items()]).raise_for_errors()
    wait_for(admin, quotas)
    sleep(0.2)


@dataclass
class Traffic:
    """A producer of one user with one client-id, which sends as fast as it may.

    Attributes:
        taken: The bytes that the broker took so far.
        throttled: The longest that the broker told it to wait, in milliseconds.
        rate: Bytes per second that the broker took in the measured time.
    """

    user: str
    client_id: str
    taken: int = 0
    throttled: int = 0
    rate: float = 0.0

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


def require_enforced(kafka: Sandbox, admin: QuotaAdmin, requests: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Make sure that the broker does to these requests what resolve says; return the source of each limit."""
    found = {(user, client_id): admin.resolve(user=user, client_id=client_id)[KEY] for user, client_id in requests}
    for attempt in range(1, ATTEMPTS + 1):
        traffic = produce(kafka, requests)
        try:
            require_traffic(traffic, found)
            break
        except AssertionError:
            if attempt == ATTEMPTS:
                raise
    return {request: resolved.source_name or "" for request, resolved in found.items()}


def require_traffic(traffic: list[Traffic], found: dict[tuple[str, str], Resolved]) -> None:
    """Make sure that what was measured is what was resolved."""
    limits = [each.value for each in found.values() if each.value is not None and each.value < OFFERED]
    buckets: dict[tuple[str, ...], list[tuple[Traffic, Resolved]]] = defaultdict(list)
    for each in traffic:
        resolved = found[each.user, each.client_id]
        print(
            f"{each.user}/{each.client_id}: {resolved.source_name} {resolved.value}: {each.rate:.0f} B/s, "
            f"throttled {each.throttled:.0f} ms"
        )
        if is_unlimited(PRODUCER_BYTE_RATE, resolved.value):
            assert each.throttled == 0
            assert each.rate > 1.5 * max(limits)
        else:
            assert each.throttled > 0
            buckets[bucket_of(resolved, each)].append((each, resolved))
    for members in buckets.values():
        (limit,) = {resolved.value for _, resolved in members if resolved.value is not None}
        assert 0.5 * limit < sum(each.rate for each, _ in members) < 1.5 * limit


def test_levels_with_users_throttle_as_resolved(kafka: Sandbox, admin: QuotaAdmin) -> None:
    write(
        admin,
        {
            Entity(user=ALICE, client_id="app1"): {KEY: 20 * KB},
            Entity(user=ALICE, client_id=None): {KEY: 60 * KB},
            Entity(user=ALICE): {KEY: 180 * KB},
            Entity(user=None, client_id="app2"): {KEY: 180 * KB},
            Entity(user=None): {KEY: 60 * KB},
            Entity(client_id="app2"): {KEY: 10 * KB},
            Entity(client_id=None): {KEY: 10 * KB},
        },
    )
    requests = [(ALICE, "app1"), (ALICE, "x"), (ALICE, "y"), (ALICE, ""), (BOB, "app2"), (BOB, "x"), (BOB, "y")]
    assert require_enforced(kafka, admin, requests) == {
        (ALICE, "app1"): "ClientInUser",
        (ALICE, "x"): "DefaultClientInUser",
        (ALICE, "y"): "DefaultClientInUser",
        (ALICE, ""): "User",
        (BOB, "app2"): "ClientInDefaultUser",
        (BOB, "x"): "DefaultUser",
        (BOB, "y"): "DefaultUser",
    }


def test_a_user_quota_is_one_rate_for_all_its_client_ids(kafka: Sandbox, admin: QuotaAdmin) -> None:
    write(
        admin,
        {
            Entity(user=ALICE): {KEY: 90 * KB},
            Entity(user=None, client_id=None): {KEY: 30 * KB},
            Entity(client_id="x"): {KEY: 10 * KB},
        },
    )
    requests = [(ALICE, "x"), (ALICE, "y"), (ALICE, ""), (BOB, "x"), (BOB, "y"), (BOB, "")]
    assert require_enforced(kafka, admin, requests) == {
        (ALICE, "x"): "User",
        (ALICE, "y"): "User",
        (ALICE, ""): "User",
        (BOB, "x"): "DefaultClientInDefaultUser",
        (BOB, "y"): "DefaultClientInDefaultUser",
        (BOB, ""): "",
    }


def test_client_id_quotas_are_shared_by_users_and_miss_empty_client_ids(kafka: Sandbox, admin: QuotaAdmin) -> None:
    write(admin, {Entity(client_id="app1"): {KEY: 120 * KB}, Entity(client_id=None): {KEY: 40 * KB}})
    requests = [(ALICE, "app1"), (BOB, "app1"), (ALICE, "x"), (BOB, "x"), (BOB, "")]
    assert require_enforced(kafka, admin, requests) == {
        (ALICE, "app1"): "Client",
        (BOB, "app1"): "Client",
        (ALICE, "x"): "DefaultClient",
        (BOB, "x"): "DefaultClient",
        (BOB, ""): "",
    }


def test_an_explicit_unlimited_lifts_a_default(kafka: Sandbox, admin: QuotaAdmin) -> None:
    unlimited = PRODUCER_BYTE_RATE.maximum
    write(admin, {Entity(user=ALICE): {KEY: unlimited}, Entity(user=None): {KEY: 50 * KB}})
    requests = [(ALICE, "x"), (BOB, "x")]
    assert require_enforced(kafka, admin, requests) == {(ALICE, "x"): "User", (BOB, "x"): "DefaultUser"}
