"""What is proposed for a value: `right-size.txt`, in the form of `table`, with what was recorded as JSON.

A case has what differs from a user alice with 10 MiB/s, who used 2 MiB/s of
broker 1 on the busiest Monday of 40 days, all of which are recorded.

`quota-edit.txt` has proposals as changes of quota files: a case begins with `===` and what it shows; `@` begins a file,
the proposals and what the cluster holds, and what is behind `=>` is the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from quotaform.model.entity import parse_address
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.scope import Pattern, Scope, Selection
from quotaform.model.units import UNLIMITED, parse_value, render_value
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.demand import BrokerRecorded, BucketDemand, BusiestDay, Recorded
from quotaform.usage.recommend.quota_edit import Changed, edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Action, Recommendation, RecommendSettings
from quotaform.usage.recommend.right_size import recommend
from tests.builder import PRODUCER
from tests.golden.conftest import FOLDER, Golden
from tests.golden.table import Text, check_told

MIB: Final = 2.0**20
LAST: Final = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
MONDAYS: Final = {"day": "2026-11-02", "is_weekly": True, "weekday_days": 5}


def busiest_of(basis: float, given: dict[str, Any]) -> BusiestDay:
    """The busiest day; its days are texts."""
    days = {name: date.fromisoformat(given[name]) for name in ("day", "outlier_day") if name in given}
    fields: dict[str, Any] = given | days
    return BusiestDay(basis=basis, **fields)


def bucket_of(given: dict[str, Any]) -> list[BucketDemand]:
    """A bucket on its brokers; times are in days before the end of the recording."""
    days, used = given.get("days", 40), given.get("used_days_ago", 0)
    first = LAST - timedelta(days=days)
    return [
        BucketDemand(
            bucket=given.get("bucket", "user=alice"),
            key=given.get("key", PRODUCER),
            broker=name or None,
            entity_key=given.get("entity", "user=alice"),
            limit=given.get("limit", 10 * MIB),
            busiest=None if basis is None else busiest_of(basis, given.get("day", MONDAYS)),
            samples=given.get("samples", 1000),
            throttled=given.get("throttled", 0),
            first=first,
            begin=first - timedelta(seconds=given.get("window", 0)),
            last_used=None if used is None else LAST - timedelta(days=used),
            hours=given.get("hours", round(days * 24)),
            is_coarse=given.get("is_coarse", False),
        )
        for name, basis in given.get("brokers", {"1": 2 * MIB}).items()
    ]


def recorded_of(given: dict[str, list[float]]) -> Recorded:
    """When a key was recorded: days and recent hours per broker, the empty name for the whole cluster."""
    brokers: dict[str | None, BrokerRecorded] = {}
    for name, (days, hours) in given.items():
        first = LAST - timedelta(days=days)
        brokers[name or None] = BrokerRecorded(first, int(hours), first)
    return Recorded(last=LAST, brokers=brokers)


def settings_of(given: dict[str, Any]) -> RecommendSettings:
    """How values are sized."""
    fields = dict(given)
    if "capacity" in fields:
        fields["capacities"] = {"prod": {PRODUCER: fields.pop("capacity")}}
    if "select" in fields:
        fields["selection"] = Selection(select=tuple(fields.pop("select")))
    if "scope" in fields:
        fields["scope"] = Scope(include=(Pattern(tuple(fields.pop("scope").items())),))
    return RecommendSettings(**fields)


def of_recorded(text: Text) -> Iterator[str]:
    """Yield what is proposed in a case, a line for each value and what it follows from."""
    given = json.loads(text)
    key = given.get("key", PRODUCER)
    buckets = [row for each in given.get("buckets", [{}]) for row in bucket_of({"key": key, **each})]
    records: dict[str, dict[str, list[float]]] = {key: {"1": [40, 720]}} if buckets else {}
    if "recorded" in given:
        records[key] = given["recorded"]
    records |= given.get("others", {})
    own = {
        parse_address(address): {key: parse_value(QUOTA_KEYS[key], value) if value == UNLIMITED else float(value)}
        for address, value in given.get("values", {"user=alice": 10 * MIB}).items()
    }
    found = recommend(
        "prod",
        own,
        buckets,
        {name: recorded_of(each) for name, each in records.items()},
        settings_of(given.get("settings", {})),
        LAST + timedelta(days=given.get("age_days", 0.375)),
        given.get("broker_count"),
    )
    for each in found:
        values = ["-" if value is None else render_value(QUOTA_KEYS[key], value) for value in (each.before, each.after)]
        yield f"{each.action.value} {each.entity.address} {values[0]} -> {values[1]}: {each.reason}"
        rest: dict[str, Any] = {
            "note": each.note,
            "bucket": each.bucket,
            "broker": each.broker,
            "day": each.day and str(each.day),
        }
        rest |= {"days": round(each.days, 3), "basis": each.basis, "samples": each.samples, "weekly": each.is_weekly}
        yield "  " + json.dumps({name: value for name, value in rest.items() if value})


def test_what_is_proposed_for_a_value(golden: Golden) -> None:
    check_told(golden, "right-size.txt", of_recorded)


DAY: Final = date(2026, 11, 22)
REASONS: Final = {True: "not used for 30 days", False: "p99 of 14 days 8.2 MiB/s x 1.5"}


def proposal(line: str) -> Recommendation:
    """A proposal, written as `cluster address key before -> after`."""
    place, _, after = line.rpartition(" -> ")
    cluster, rest = place.split(" ", 1)
    address, key, before = rest.rsplit(" ", 2)
    values = [None if value == "-" else float(value) for value in (before, after)]
    action = Action.DELETE if values[1] is None else Action.CREATE if values[0] is None else Action.UPDATE
    return Recommendation(
        cluster=cluster,
        entity=parse_address(address),
        key=key,
        action=action,
        before=values[0],
        after=values[1],
        reason=REASONS[values[1] is None],
    )


def edited(case: str, folder: Path) -> str:
    """What becomes of the files of a case: those that change, and what they don't follow."""
    parts = {name: text for name, _, text in (part.partition("\n") for part in case.split("@ ")[1:])}
    proposals = [proposal(line) for line in parts.pop("proposals").splitlines()]
    held: dict[str, float] = {}
    for line in parts.pop("held", "").splitlines():
        key, value = line.split()
        held[key] = float(value)
    live: dict[Changed, Values] = {(each.cluster, each.entity): held for each in proposals}
    (folder / "quotas.d").mkdir(parents=True)
    for name, text in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    repository = Repository.at(folder / "quotas.d", None)
    found = edit_quotas(repository, repository.config(), proposals, live, DAY)
    write_quotas(found)
    lines = []
    for file in found.files:
        lines += [f"@ {file.path.relative_to(folder)}", *file.path.read_text(encoding="utf-8").splitlines()]
    for left in found.unwritten:
        reason = left.reason.replace(f"{folder}/", "")
        lines.append(f"! {left.cluster} {left.address} {left.key}: {reason}")
    return "".join(f"=> {line}".rstrip() + "\n" for line in lines)


def test_files_follow_proposals_and_nothing_else_changes(golden: Golden, tmp_path: Path) -> None:
    head, *cases = (FOLDER / "quota-edit.txt").read_text(encoding="utf-8").split("===")
    found = head
    for number, case in enumerate(cases):
        given = case.partition("\n=>")[0] + "\n"
        found += f"==={given}{edited(given, tmp_path / str(number))}\n"
    golden("quota-edit.txt", found.rstrip("\n") + "\n")
