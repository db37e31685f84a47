"""What is proposed for a value, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from quotaform.core.scope import Pattern, Scope, Selection
from quotaform.core.usage.sizing.busiest_day import BusiestDay
from quotaform.core.usage.sizing.demand import BrokerDemand, BrokerRecorded, BucketDemand, Recorded
from quotaform.core.usage.sizing.recommendation import Action, OwnValue, Recommendation, RecommendSettings
from quotaform.core.usage.sizing.right_size import recommend
from quotaform.model.entity import Entity
from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE
from quotaform.model.units import UNLIMITED, parse_value
from tests.builder import PRODUCER, REQUEST

MIB = 2.0**20
LAST = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
ALICE = Entity(user="alice")
DEFAULT = Entity(user=None)
NOW = LAST + timedelta(hours=9)
SETTINGS = RecommendSettings()
MONDAYS = BusiestDay(basis=0.0, day=20759, is_weekly=True, weekday_days=5)


def bucket(
    address: str = "user=alice",
    *,
    entity: str | None = "user=alice",
    limit: float | None = 10 * MIB,
    brokers: dict[str | None, float | None] | None = None,
    days: float = 40,
    used_days_ago: float | None = 0,
    key: str = PRODUCER,
    **more: Any,
) -> BucketDemand:
    """A bucket that used 2 MiB/s of broker 1 unless said otherwise."""
    day: BusiestDay = more.pop("day", MONDAYS)
    samples, throttled = more.pop("samples", 1000), more.pop("throttled", 0)
    return BucketDemand(
        bucket=address,
        key=key,
        entity_key=entity,
        limit=limit,
        brokers=tuple(
            BrokerDemand(
                broker=name,
                busiest=None if basis is None else replace(day, basis=basis),
                samples=samples,
                throttled=throttled,
            )
            for name, basis in ({"1": 2 * MIB} if brokers is None else brokers).items()
        ),
        first=LAST - timedelta(days=days),
        begin=LAST - timedelta(days=days, seconds=more.pop("window", 0)),
        last_used=None if used_days_ago is None else LAST - timedelta(days=used_days_ago),
        hours=more.pop("hours", round(days * 24)),
        is_coarse=more.pop("is_coarse", False),
    )


def recorded(brokers: dict[str | None, int] | None = None, *, days: float = 40, last: datetime = LAST) -> Recorded:
    """A recording of 40 days up to LAST, with the recent hours per broker: 720 of broker 1 unless said otherwise."""
    hours = {"1": 720} if brokers is None else brokers
    first = last - timedelta(days=days)
    return Recorded(last=last, brokers={name: BrokerRecorded(first, found, first) for name, found in hours.items()})


MONTH = recorded()


def size(
    buckets: list[BucketDemand],
    values: dict[Entity, float] | None = None,
    settings: RecommendSettings = SETTINGS,
    recorded: Recorded = MONTH,
    key: str = PRODUCER,
    now: datetime = NOW,
    others: dict[str, Recorded] | None = None,
    broker_count: int | None = None,
) -> dict[str, Recommendation]:
    """What is proposed, by address."""
    held = {ALICE: 10 * MIB} if values is None else values
    own = [OwnValue(entity=entity, key=key, value=value) for entity, value in held.items()]
    found = recommend(
        "prod", own, buckets, {**(others or {}), **({key: recorded} if buckets else {})}, settings, now, broker_count
    )
    return {each.entity.address: each for each in found}


def test_a_value_becomes_the_highest_basis_of_a_broker_times_the_headroom_rounded_up() -> None:
    (found,) = size([bucket(brokers={"1": 2 * MIB, "2": 4.1 * MIB})]).values()
    assert (found.action, found.after, found.broker) == (Action.UPDATE, 6.5 * MIB, "2")
    assert found.reason == "p99 of 40 days, 4.1 MiB/s on Mondays, x 1.5"


def test_a_change_of_less_than_a_tenth_is_not_proposed() -> None:
    (found,) = size([bucket(brokers={"1": 6.3 * MIB})]).values()
    assert (found.action, found.after) == (Action.KEEP, 10 * MIB)


def test_units_are_those_of_the_value_now() -> None:
    assert size([bucket()], {ALICE: 10e6})["user=alice"].after == 3.25e6
    assert size([bucket()], {ALICE: 10 * MIB})["user=alice"].after == 3 * MIB


def test_rates_in_a_reason_are_in_the_units_of_the_value() -> None:
    """A value of 10 MB/s became one of 1.75 MB/s because of 1.04 MiB/s."""
    day = replace(MONDAYS, is_weekly=False, next_basis=MIB, outlier=20 * MIB, outlier_day=20760)
    found = size([bucket(brokers={"1": 2e6}, day=day)], {ALICE: 10e6}, replace(SETTINGS, outlier_days=1))["user=alice"]
    assert (found.reason, found.after) == (
        "p99 of 40 days without outliers, 2 MB/s on Monday 2026-11-02, x 1.5",
        3e6,
    )
    assert found.note is not None
    assert found.note.startswith("left out: 21 MB/s on Tuesday 2026-11-03; that day stands out: at most 1.05 MB/s on")
    cap = replace(SETTINGS, caps={PRODUCER: 1e6})
    low = size([bucket()], settings=cap)["user=alice"]
    assert low.reason == "the cap of 1 MB/s is below the p99 of 2.1 MB/s"
    full = size([bucket(brokers={"1": 20e6})], {ALICE: 10e6}, replace(SETTINGS, capacities={"prod": {PRODUCER: 25e6}}))
    assert full["user=alice"].note == "x 1.5 exceeds the capacity of 25 MB/s"


def test_nothing_is_proposed_from_too_little_history_or_too_few_samples() -> None:
    young = size([bucket(days=3.2)])["user=alice"]
    assert (young.action, young.reason, young.after) == (Action.NONE, "3.2 of 14 days recorded", 10 * MIB)
    gaps = size([bucket(hours=200)])["user=alice"]
    assert (gaps.action, gaps.reason) == (Action.NONE, "8.3 of 14 days recorded")
    few = size([bucket(samples=57)])["user=alice"]
    assert (few.action, few.reason) == (Action.NONE, "57 of 100 samples recorded")
    shorter = replace(SETTINGS, min_history_days=3)
    assert size([bucket(days=3.2)], settings=shorter)["user=alice"].action is Action.UPDATE


def test_times_shorter_than_two_days_are_given_in_their_own_units() -> None:
    """37 seconds of recording were called 1 hour, and were enough for a minimum of 30 minutes."""
    seconds = bucket(days=37 / 86_400, hours=1)
    short = recorded({"1": 1}, days=37 / 86_400)
    for minimum, reason in ((14, "37s of 14 days recorded"), (1 / 48, "37s of 30m recorded")):
        settings = replace(SETTINGS, min_history_days=minimum)
        found = size([seconds], settings=settings, recorded=short)["user=alice"]
        assert (found.action, found.reason) == (Action.NONE, reason)
    settings = replace(SETTINGS, min_history_days=30 / 86_400)
    single = BusiestDay(basis=0.0, day=20759)
    found = size([bucket(days=37 / 86_400, hours=1, day=single)], settings=settings, recorded=short)["user=alice"]
    assert (found.action, found.reason) == (Action.UPDATE, "p99 of 37s, 2 MiB/s, x 1.5")
    # The first sample stands for its window, as in headroom and backtests.
    window = bucket(days=37 / 86_400, hours=1, day=single, window=11.5)
    found = size([window], settings=settings, recorded=short)["user=alice"]
    assert found.reason == "p99 of 48s, 2 MiB/s, x 1.5"
    hours = replace(SETTINGS, min_history_days=0.1)
    found = size([bucket(days=1.5)], settings=hours)["user=alice"]
    assert found.reason == "p99 of 1d 12h, 2 MiB/s on Mondays, x 1.5"
    almost = recorded({"1": 330}, days=13.99)
    found = size([bucket(days=13.2)], recorded=almost)["user=alice"]
    assert found.reason == "13.2 of 14 days recorded"
    day = replace(SETTINGS, unused_after_days=0.5)
    found = size([bucket(used_days_ago=1)], settings=day)["user=alice"]
    assert (found.action, found.reason) == (
        Action.DELETE,
        "not used from 2026-11-20T11:59:00Z to 2026-11-20T23:59:00Z",
    )


def test_the_reason_names_the_weekday_or_the_day_and_an_outlier_is_noted() -> None:
    wednesday = BusiestDay(basis=0.0, day=20761, weekday_days=5, next_basis=4 * MIB)
    (found,) = size([bucket(brokers={"1": 20 * MIB}, day=wednesday)]).values()
    assert found.reason == "p99 of 40 days, 20 MiB/s on Wednesday 2026-11-04, x 1.5"
    assert found.note == "that day stands out: at most 4 MiB/s on all others (--outlier-days 1 leaves it out)"
    assert (found.day, found.is_weekly) == (date(2026, 11, 4), False)
    (found,) = size([bucket(brokers={"1": 6 * MIB}, day=wednesday)], {ALICE: MIB}).values()
    assert found.note is None
    single = replace(wednesday, weekday_days=1)
    (found,) = size([bucket(brokers={"1": 20 * MIB}, day=single)]).values()
    assert found.note == "that day stands out: at most 4 MiB/s on all others"
    left = replace(MONDAYS, outlier=20 * MIB, outlier_day=20761)
    (found,) = size([bucket(day=left)], settings=replace(SETTINGS, outlier_days=1)).values()
    assert (found.reason, found.after) == ("p99 of 40 days without outliers, 2 MiB/s on Mondays, x 1.5", 3 * MIB)
    assert found.note == "left out: 20 MiB/s on Wednesday 2026-11-04"


def test_a_throttled_entity_is_not_lowered_and_the_note_says_that_demand_was_hidden() -> None:
    (found,) = size([bucket(throttled=7)]).values()
    assert (found.action, found.after) == (Action.KEEP, 10 * MIB)
    (found,) = size([bucket(throttled=7, brokers={"1": 10 * MIB})]).values()
    assert (found.action, found.after) == (Action.UPDATE, 15 * MIB)
    assert found.note == "throttled in 7 of 1,000 samples: demand was higher"


def test_a_value_that_nobody_used_is_removed_if_that_time_is_recorded() -> None:
    idle = bucket(brokers={"1": 2 * MIB}, used_days_ago=31)
    assert size([idle])["user=alice"].action is Action.DELETE
    other = bucket("user=bob", entity=None, limit=None)
    found = size([other])["user=alice"]
    assert (found.action, found.after) == (Action.DELETE, None)
    assert found.reason == "not used from 2026-10-21 to 2026-11-20"
    found = size([other], recorded=recorded({"1": 300}))["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, "not used, but only 12.5 of 30 days recorded on broker 1")
    short = recorded({"1": 480}, days=20)
    assert size([other], recorded=short)["user=alice"].action is Action.NONE


def test_a_value_is_removed_only_if_the_time_is_recorded_on_each_broker() -> None:
    """One sample on any broker made the hour recorded: what was used of broker 2 alone was removed."""
    idle = bucket(brokers={"1": 2 * MIB}, used_days_ago=31)
    found = size([idle], recorded=recorded({"1": 720, "2": 300, "3": 600}))["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, "not used, but only 12.5 of 30 days recorded on broker 2")
    assert found.days == 12.5
    whole = size([idle], recorded=recorded({"2": 600, "1": 720, None: 3}))["user=alice"]
    assert whole.action is Action.DELETE
    assert whole.note is not None
    assert whole.note.endswith("; recorded on brokers 1, 2")
    late = Recorded(
        last=LAST,
        brokers={
            "1": BrokerRecorded(LAST - timedelta(days=40), 720, LAST - timedelta(days=40)),
            "2": BrokerRecorded(LAST - timedelta(days=29), 690, LAST - timedelta(days=29)),
        },
    )
    found = size([idle], recorded=late)["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, "not used, but only 28.7 of 30 days recorded on broker 2")


def test_nothing_is_removed_if_the_cluster_has_more_brokers_than_are_recorded() -> None:
    idle = bucket(brokers={"1": 2 * MIB}, used_days_ago=31)
    found = size([idle], broker_count=3)["user=alice"]
    reason = "not used, but only 1 of 3 brokers is recorded (1)"
    assert (found.action, found.reason) == (Action.NONE, reason)
    two = recorded({"b1:7071": 720, "b2:7071": 720})
    found = size([idle], recorded=two, broker_count=3)["user=alice"]
    assert found.reason == "not used, but only 2 of 3 brokers are recorded (b1:7071, b2:7071)"
    assert size([idle], recorded=two, broker_count=2)["user=alice"].action is Action.DELETE


def test_a_broker_without_any_sample_of_the_key_keeps_what_it_may_have_used() -> None:
    idle = bucket(brokers={"1": 2 * MIB}, used_days_ago=31)
    others = {REQUEST: recorded({"1": 720, "2": 720})}
    found = size([idle], others=others)["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, f"not used, but {PRODUCER} is not recorded on broker 2")


def test_nothing_is_removed_if_only_clients_measured() -> None:
    idle = bucket("user=bob", entity=None, limit=None, brokers={None: MIB})
    found = size([idle], recorded=recorded({None: 720}))["user=alice"]
    reason = f"not used, but only clients measured it, and {PRODUCER} is limited per broker"
    assert (found.action, found.reason) == (Action.NONE, reason)


def test_a_limit_of_the_whole_cluster_needs_no_recording_of_each_broker() -> None:
    key = CONTROLLER_MUTATION_RATE.name
    idle = bucket("user=bob", entity=None, limit=None, brokers={None: 2.0}, key=key)
    others = {PRODUCER: recorded({"1": 720, "2": 3})}
    found = size([idle], {ALICE: 20.0}, recorded=recorded({None: 720}), key=key, others=others, broker_count=3)[
        "user=alice"
    ]
    assert (found.action, found.note) == (Action.DELETE, "then nothing limits it: plan requires --allow to-unlimited")


def test_nothing_is_removed_because_of_a_recording_that_ended_long_ago() -> None:
    idle = bucket(used_days_ago=31)
    assert size([idle], now=LAST + timedelta(days=7))["user=alice"].action is Action.DELETE
    found = size([idle], now=LAST + timedelta(days=7, seconds=1))["user=alice"]
    reason = "not used, but the recording ends on 2026-11-20; record again"
    assert (found.action, found.reason, found.after) == (Action.NONE, reason, 10 * MIB)
    # What is used is sized by it nevertheless; the output says which time it covers.
    assert size([bucket()], now=LAST + timedelta(days=90))["user=alice"].action is Action.UPDATE


def test_a_removal_says_what_applies_instead() -> None:
    idle = [bucket("user=bob", entity="user=bob", limit=MIB)]
    held = {ALICE: 10 * MIB, Entity(user="bob"): MIB}
    note = "then nothing limits it: plan requires --allow to-unlimited; recorded on broker 1"
    assert size(idle, held)["user=alice"].note == note
    note = "then 4 MiB/s of user=<default> applies; recorded on broker 1"
    assert size(idle, {**held, DEFAULT: 4 * MIB})["user=alice"].note == note


def test_nothing_is_removed_if_the_key_is_not_recorded_at_all() -> None:
    found = size([])["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, f"no usage of {PRODUCER} is recorded")


def test_a_default_that_nobody_used_is_kept() -> None:
    found = size([bucket("client-id=x", entity="client-id=x")], {DEFAULT: MIB})["user=<default>"]
    assert (found.action, found.after) == (Action.KEEP, MIB)


def test_an_exempt_entity_stays_unlimited() -> None:
    unlimited = parse_value(PRODUCER_BYTE_RATE, UNLIMITED)
    found = size([bucket(limit=unlimited)], {ALICE: unlimited})["user=alice"]
    assert (found.action, found.reason) == (Action.KEEP, "unlimited: the entity is exempt")


def test_a_recording_that_is_too_coarse_or_made_by_clients_gives_no_proposal() -> None:
    coarse = size([bucket(is_coarse=True)])["user=alice"]
    assert coarse.reason == "the recording of user=alice does not tell its buckets apart"
    clients = size([bucket(brokers={None: 2 * MIB})])["user=alice"]
    assert clients.reason == f"only clients measured it, and {PRODUCER} is limited per broker"
    both = size([bucket(brokers={None: 9 * MIB, "1": 2 * MIB})])["user=alice"]
    assert (both.action, both.after) == (Action.UPDATE, 3 * MIB)
    cluster = size(
        [bucket(brokers={None: 2.0}, key=CONTROLLER_MUTATION_RATE.name, limit=20.0)],
        {ALICE: 20.0},
        key=CONTROLLER_MUTATION_RATE.name,
    )["user=alice"]
    assert (cluster.action, cluster.after) == (Action.UPDATE, 3.0)


def test_floors_and_caps_hold_and_a_cap_below_the_basis_leaves_it_open() -> None:
    floor = replace(SETTINGS, floors={PRODUCER: 5 * MIB})
    assert size([bucket()], settings=floor)["user=alice"].after == 5 * MIB
    cap = replace(SETTINGS, caps={PRODUCER: 2.5 * MIB})
    assert size([bucket()], settings=cap)["user=alice"].after == 2.5 * MIB
    low = size([bucket()], settings=replace(SETTINGS, caps={PRODUCER: MIB}))["user=alice"]
    assert (low.action, low.reason) == (Action.NONE, "the cap of 1 MiB/s is below the p99 of 2 MiB/s")


def test_a_default_is_sized_by_the_largest_of_its_buckets() -> None:
    buckets = [
        bucket("user=bob", entity="user=<default>", brokers={"1": 2 * MIB}),
        bucket("user=carol", entity="user=<default>", brokers={"2": 4 * MIB}),
    ]
    found = size(buckets, {DEFAULT: 10 * MIB})["user=<default>"]
    assert (found.after, found.bucket, found.broker) == (6 * MIB, "user=carol", "2")


def test_with_create_a_bucket_that_needs_more_than_its_default_gets_a_value_of_its_own() -> None:
    buckets = [
        bucket("user=bob", entity="user=<default>", brokers={"1": 2 * MIB}, limit=4 * MIB),
        bucket("user=carol", entity="user=<default>", brokers={"1": 8 * MIB}, limit=4 * MIB),
        bucket("user=dave", entity=None, limit=None),
    ]
    settings = replace(SETTINGS, has_creates=True)
    found = size(buckets, {DEFAULT: 4 * MIB}, settings)
    assert {address: (each.action, each.after) for address, each in found.items()} == {
        "user=<default>": (Action.UPDATE, 3 * MIB),
        "user=carol": (Action.CREATE, 12 * MIB),
        "user=dave": (Action.CREATE, 3 * MIB),
    }
    assert list(size(buckets, {DEFAULT: 4 * MIB})) == ["user=<default>"]


def test_less_headroom_is_given_where_the_capacity_of_a_broker_is_short() -> None:
    buckets = [
        bucket(brokers={"1": 20 * MIB}),
        bucket("user=bob", entity="user=bob", brokers={"1": 20 * MIB, "2": 5 * MIB}),
    ]
    values = {ALICE: 10 * MIB, Entity(user="bob"): 10 * MIB}
    settings = replace(SETTINGS, capacities={"prod": {PRODUCER: 50 * MIB}})
    found = size(buckets, values, settings)
    assert sum(each.after or 0 for each in found.values()) == 50 * MIB
    assert found["user=alice"].reason == "p99 of 40 days, 20 MiB/s on Mondays, x 1.25"
    assert found["user=alice"].note == "x 1.5 exceeds the capacity of 50 MiB/s"


def test_nothing_is_increased_where_even_the_bases_exceed_the_capacity() -> None:
    buckets = [bucket(brokers={"1": 20 * MIB}), bucket("user=bob", entity="user=bob", brokers={"1": MIB})]
    values = {ALICE: 10 * MIB, Entity(user="bob"): 10 * MIB}
    settings = replace(SETTINGS, capacities={"prod": {PRODUCER: 15 * MIB}})
    found = size(buckets, values, settings)
    assert (found["user=alice"].action, found["user=bob"].after) == (Action.NONE, 1.5 * MIB)
    assert found["user=alice"].reason == "the capacity of 15 MiB/s is used up"


BOB = Entity(user="bob")
IDLE = bucket("user=bob", entity="user=bob", limit=MIB, brokers={"1": 0.5 * MIB}, used_days_ago=35)


def test_what_loses_its_value_counts_with_that_of_the_default_for_the_capacity() -> None:
    """It did not count at all: 60 MiB/s of alice and 100 MiB/s of bob exceeded a capacity of 150 MiB/s."""
    values = {ALICE: 41 * MIB, BOB: MIB, DEFAULT: 100 * MIB}
    busy = bucket(limit=41 * MIB, brokers={"1": 40 * MIB})
    short = replace(SETTINGS, capacities={"prod": {PRODUCER: 150 * MIB}})
    found = size([busy, IDLE], values, short)
    assert (found["user=bob"].action, found["user=alice"].after) == (Action.DELETE, 50 * MIB)
    assert found["user=alice"].note == "x 1.5 exceeds the capacity of 150 MiB/s"
    # On another broker, it takes nothing from alice.
    elsewhere = replace(IDLE, brokers=(replace(IDLE.brokers[0], broker="2"),))
    both = recorded({"1": 720, "2": 720})
    assert size([busy, elsewhere], values, short, both)["user=alice"].after == 60 * MIB


def test_no_value_is_removed_for_which_the_capacity_has_no_room() -> None:
    values = {ALICE: 41 * MIB, BOB: MIB, DEFAULT: 100 * MIB}
    busy = bucket(limit=41 * MIB, brokers={"1": 40 * MIB})
    found = size([busy, IDLE], values, replace(SETTINGS, capacities={"prod": {PRODUCER: 120 * MIB}}))
    assert (found["user=bob"].action, found["user=bob"].after) == (Action.NONE, MIB)
    assert found["user=bob"].reason == "the capacity of 120 MiB/s is used up"
    # Then it keeps its limit, and alice gets what she needs.
    assert found["user=alice"].after == 60 * MIB
    less = {**values, DEFAULT: 0.5 * MIB}
    lowered = size([busy, IDLE], less, replace(SETTINGS, capacities={"prod": {PRODUCER: 10 * MIB}}))
    assert lowered["user=bob"].action is Action.DELETE


def test_who_joins_the_bucket_of_a_user_takes_nothing_more_of_the_capacity() -> None:
    own = Entity(user="alice", client_id="app")
    idle = replace(IDLE, bucket="user=alice,client-id=app", entity_key="user=alice,client-id=app")
    busy = bucket(limit=41 * MIB, brokers={"1": 40 * MIB})
    short = replace(SETTINGS, capacities={"prod": {PRODUCER: 60 * MIB}})
    found = size([busy, idle], {ALICE: 41 * MIB, own: MIB}, short)
    assert found["user=alice,client-id=app"].action is Action.DELETE
    assert found["user=alice"].after == 60 * MIB


def test_a_removal_that_was_not_asked_for_keeps_its_part_of_the_capacity() -> None:
    settings = replace(SETTINGS, selection=Selection(select=("user=alice",)))
    settings = replace(settings, capacities={"prod": {PRODUCER: 60.5 * MIB}})
    found = size([bucket(brokers={"1": 40 * MIB}), IDLE], {ALICE: 41 * MIB, BOB: MIB}, settings)
    assert found["user=alice"].note == "x 1.5 exceeds the capacity of 60.5 MiB/s"


def test_nothing_is_created_for_who_is_idle() -> None:
    """A value that was not there was to be removed: none became none, and files said `state: absent`."""
    unlimited = bucket("user=bob", entity=None, limit=None, used_days_ago=35)
    assert list(size([unlimited, bucket()], settings=replace(SETTINGS, has_creates=True))) == ["user=alice"]
    small = bucket("user=bob", entity="user=<default>", limit=MIB, used_days_ago=35)
    found = size([small], {DEFAULT: MIB}, replace(SETTINGS, has_creates=True))
    assert [(name, each.action) for name, each in found.items()] == [("user=<default>", Action.KEEP)]
    busy = bucket(entity="user=<default>", limit=MIB)
    mixed = size([small, busy], {DEFAULT: MIB}, replace(SETTINGS, has_creates=True))
    assert mixed["user=alice"].action is Action.CREATE
    assert mixed["user=<default>"].reason == "those that it limits get values of their own"


def test_entities_out_of_scope_or_not_selected_are_left_alone_and_count_for_the_capacity() -> None:
    scope = Scope(include=(Pattern((("user", "svc-*"),)),))
    found = size([bucket()], settings=replace(SETTINGS, scope=scope))["user=alice"]
    assert (found.action, found.reason) == (Action.NONE, "out of scope")
    selection = Selection(select=("user=bob",))
    buckets = [bucket(brokers={"1": 20 * MIB}), bucket("user=bob", entity="user=bob", brokers={"1": 20 * MIB})]
    values = {ALICE: 30 * MIB, Entity(user="bob"): 10 * MIB}
    settings = replace(SETTINGS, selection=selection, capacities={"prod": {PRODUCER: 50 * MIB}})
    selected = size(buckets, values, settings)
    assert list(selected) == ["user=bob"]
    # Alice keeps her 30 MiB, so that 20 are left.
    assert selected["user=bob"].after == 20 * MIB
