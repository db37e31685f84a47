"""How a cluster differs from what was last agreed: drift, or a change of the files that is pending.

What was last agreed is the baseline: the files at a git ref, or what a receipt says was applied. For each entity:

| class | the baseline | the cluster | the files |
| --- | --- | --- | --- |
| modified | declares it | holds it with other values | |
| missing | declares it | does not hold it | declare it |
| unexpected | does not declare it, or says that it must not exist | holds it | do not declare it |
| pending | says what the cluster holds, or does not declare it | | declare something else: git has moved on |

The first three are drift. A key whose live value is that of the files is in sync, whatever the baseline says. Without
a baseline the files stand for it, and what is pending cannot be distinguished from drift.

Drift is the same difference as a plan's, seen from the other side: `quotaform.plan.plan` says what each key that
differs is due to, and nothing is compared a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import convert, field, structs

from quotaform.desired.writer import is_out_of_reach
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Location, by_severity
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Action, Cause, Change, DeclaredBase, SnapshotFile, Values
from quotaform.model.records.document import DRIFT, digest, json_number
from quotaform.model.records.record import (
    UNSET,
    Address,
    ClusterRecord,
    Count,
    Digest,
    Double,
    QuotaKeyName,
    Record,
    Timestamp,
    UnsetType,
    about,
    builtins,
    derived,
)
from quotaform.model.settings import Ignore, check_ignores
from quotaform.plan.digest import ClusterDigest, FleetRow, FleetStatus
from quotaform.plan.plan import ChangeOrigin, EntityChange, Plan, Unmanaged, key_origin


class DriftClass(StrEnum):
    """In what way an entity differs."""

    MODIFIED = "modified"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


class DriftedKey(Record):
    """One quota key that differs."""

    key: QuotaKeyName
    desired: Annotated[Double | None, about("The declared value, or null.")]
    actual: Annotated[Double | None, about("The live value, or null.")]
    baseline: Annotated[
        Double | UnsetType | None, about("The value in the baseline, or null; omitted if there is none.")
    ] = UNSET

    @property
    def agreed(self) -> float | None:
        """The value that was last agreed: that of the baseline, or of the files if it has none."""
        return self.desired if self.baseline is UNSET else self.baseline


def _keys(rows: Iterable[Change], baseline: Values | None = None) -> tuple[DriftedKey, ...]:
    """Return changes that would make the cluster as the files say as what differs.

    `baseline` is what the baseline declares, empty when the entity must not exist; `None` when it does not declare it
    or its values are not known, and without a baseline.
    """
    return tuple(
        DriftedKey(
            key=row.key,
            desired=row.after,
            actual=row.before,
            baseline=UNSET if baseline is None else baseline.get(row.key),
        )
        for row in rows
    )


class Drifted(Record):
    """One entity that differs."""

    address: Address = derived(lambda drifted: drifted.entity.address)
    entity: Entity
    drift_class: Annotated[
        DriftClass, about("modified: other values; missing: declared but not live; unexpected: live but not declared.")
    ] = field(name="class")
    is_declared: Annotated[bool, about("Whether the files declare it.")] = field(default=True, name="declared")
    absent: Annotated[
        str | None,
        about(
            "Why it must not exist, according to the files; null if it is declared or in no file.", "expired 2026-12-31"
        ),
    ] = None
    keys: Annotated[tuple[DriftedKey, ...], about("The quota keys that differ.", min_length=1)]
    location: Annotated[Location | None, about("The location of its entry.")] = None
    owner: Annotated[str | None, about("The owner, from the files.")] = None


class Ignored(Drifted):
    """Ignored differences of an entity."""

    reason: Annotated[str, about("The reason given in drift_ignore.")]
    expires: Annotated[date, about("The date (UTC) from which it counts.", "2026-12-31")]
    ignored_by: Annotated[Location | None, about("The location of the item of drift_ignore.")]


class Pending(Record):
    """One entity that matches the baseline but not the files."""

    address: Address = derived(lambda pending: pending.entity.address)
    entity: Entity
    action: Annotated[Action, about("What an apply would do.")]
    is_declared: Annotated[bool, about("Whether the files declare it.")] = field(default=True, name="declared")
    keys: Annotated[tuple[DriftedKey, ...], about("The quota keys that differ.", min_length=1)]
    location: Annotated[Location | None, about("The location of its entry.")] = None
    owner: Annotated[str | None, about("The owner, from the files.")] = None


def read_change(change: EntityChange) -> Drifted | Pending:
    """Return what the changes of an entity are: drift if any of its keys has drifted."""
    is_declared = change.cause is not Cause.UNDECLARED
    rows = tuple(row for row in change.changes if change.origin_of(row) is not ChangeOrigin.CONFIG)
    if not rows:
        return Pending(
            entity=change.entity,
            action=change.action,
            keys=_keys(change.changes),
            is_declared=is_declared,
            owner=change.owner,
            location=change.location,
        )
    return Drifted(
        entity=change.entity,
        drift_class=_class_of(change.cause is Cause.ENTRY if change.base is None else bool(change.base), change.before),
        keys=_keys(rows, change.base),
        is_declared=is_declared,
        absent=change.reason if change.cause in (Cause.TOMBSTONE, Cause.EXPIRED) else None,
        owner=change.owner,
        location=change.location,
    )


def _class_of(is_agreed: bool, live: Values) -> DriftClass:
    """Return in what way an entity differs, by whether it was agreed that it exists."""
    if not is_agreed:
        return DriftClass.UNEXPECTED
    return DriftClass.MODIFIED if live else DriftClass.MISSING


def read_unmanaged(item: Unmanaged, baseline: DeclaredBase | None) -> Drifted | Pending:
    """Return what a live entity is that no file declares: pending when the baseline declares it as it is."""
    agreed = None if baseline is None else baseline.values(item.entity)
    keys = sorted(item.values, key=key_order)
    rows = tuple(Change(item.entity, key, item.values[key], None) for key in keys)
    is_pending = baseline is not None and agreed is None and item.entity in baseline.unvalued
    if agreed:
        known = [key for key in QUOTA_KEYS if key in item.values or key in agreed]
        every = (Change(item.entity, key, item.values.get(key), None) for key in known)
        moved = tuple(row for row in every if key_origin(agreed.get(row.key), row) is not ChangeOrigin.CONFIG)
        rows, is_pending = moved or rows, not moved
    if is_pending:
        return Pending(entity=item.entity, action=Action.DELETE, keys=_keys(rows), is_declared=False)
    return Drifted(
        entity=item.entity,
        drift_class=_class_of(bool(agreed), item.values),
        keys=_keys(rows, agreed),
        is_declared=False,
    )


_FINDINGS: Final = frozenset(
    row.id
    for row in (
        *(rule.CLUSTER_ID, rule.NO_MATCH, rule.UNKNOWN_COMMIT, rule.BASE_EMPTY, rule.NO_LONGER_DECLARED),
        *(rule.HISTORY_NOT_SEARCHED, rule.UNKNOWN_TYPE, rule.UNKNOWN_KEY, rule.EMPTY_NAME, rule.BAD_NAME),
        *(rule.BAD_SHAPE, rule.IP_NAME, rule.IP_ALIAS, rule.MISFIT_KEY, rule.NAN_VALUE, rule.INEXACT_VALUE),
    )
)
"""What a plan finds that is about the cluster and how it was compared; its guards are about an apply."""


class Baseline(Record):
    """What the cluster was compared with."""

    type: Annotated[
        Literal["git", "receipt", "history", "none"],
        about(
            "git: the files at a ref; receipt: what was applied; history: what the cluster held at a time; none: the "
            "files as they are, so that pending changes count as drift."
        ),
    ] = "none"
    ref: Annotated[
        str | None,
        about("The git ref or the path of the receipt, as given; the history and the snapshot's time.", "origin/main"),
    ] = None
    commit: Annotated[str | None, about("The commit, if it is known.")] = None


class DriftSummary(Record):
    """The number of entities per class."""

    modified: Annotated[Count, about("Declared entities with other values.")]
    missing: Annotated[Count, about("Declared entities that do not exist.")]
    unexpected: Annotated[Count, about("Entities that no file declares, or that must not exist.")]
    in_sync: Annotated[Count, about("Declared entities without differences.")]
    pending: Annotated[Count, about("Entities that match the baseline but not the files; these are not drift.")]
    ignored: Annotated[Count, about("Entities with keys that differ and are listed in drift_ignore.")]

    @property
    def classes(self) -> dict[DriftClass, int]:
        """How many entities each class has."""
        return {each: getattr(self, each.value) for each in DriftClass}


class DriftOptionsRecord(Record, omit_defaults=True):
    """The options that say what was compared."""

    select: Annotated[tuple[str, ...], about("Globs of addresses to include; all entities if empty.")]
    exclude: Annotated[tuple[str, ...], about("Globs of addresses to exclude.")]
    bootstrap_server: Annotated[
        str | None,
        about("The bootstrap servers, when they were given in the place of the cluster's; omitted otherwise."),
    ] = None


def _status(drift: Drift) -> str:
    if not drift.is_known:
        return "unknown"
    return "drift" if drift.entities else "in-sync"


def _fingerprint(drift: Drift) -> str:
    """Return what is equal as long as the same entities differ in the same way from what was agreed.

    What is pending or ignored is not in it, nor what the files say where a baseline says what was agreed.
    """
    rows = [
        [drifted.address, drifted.drift_class.value, each.key, json_number(each.actual), json_number(each.agreed)]
        for drifted in drift.entities
        for each in drifted.keys
    ]
    return digest([drift.cluster.id, rows])


def _summary(drift: Drift) -> DriftSummary:
    counts = Counter(each.drift_class for each in drift.entities)
    return DriftSummary(
        **{each.value: counts[each] for each in DriftClass},
        in_sync=drift.in_sync,
        pending=len(drift.pending),
        ignored=len({each.entity for each in drift.ignored}),
    )


class DriftRecord(Record, document=DRIFT, omit_defaults=True):
    """The differences between a cluster and the files, as quotaform drift writes them."""

    cluster: ClusterRecord
    read_at: Annotated[Timestamp, about("When the cluster or its snapshot was read, as ISO 8601 in UTC.")]
    snapshot: Annotated[SnapshotFile | None, about("Omitted if a running cluster was read.")] = None
    options: DriftOptionsRecord
    baseline: Baseline
    complete: Annotated[bool, about("Whether all entities were compared; false with a selection.")] = derived(
        lambda drift: not (drift.options.select or drift.options.exclude)
    )
    status: Annotated[Literal["in-sync", "drift", "unknown"], about("Whether there are differences.")] = derived(
        _status
    )
    fingerprint: Annotated[Digest, about("A digest of the drift; it changes only if the differences change.")] = (
        derived(_fingerprint)
    )
    summary: DriftSummary = derived(_summary)
    entities: Annotated[tuple[Drifted, ...], about("The entities that differ, by address.")]
    pending: Annotated[
        tuple[Pending, ...], about("The changes that are not applied yet, by address; these are not drift.")
    ]
    ignored: Annotated[tuple[Ignored, ...], about("Differences listed in drift_ignore, by address; not counted.")]
    findings: Annotated[tuple[Finding, ...], about("Findings about the live cluster.")]


class Drift(DriftRecord):
    """All that differs, and what is counted for metrics."""

    in_sync: int  # How many declared entities match the cluster
    managed: int  # How many entities the files declare values for
    unmanaged_in_scope: int  # How many live entities in scope no file declares
    unmanaged_out_of_scope: int

    @property
    def is_known(self) -> bool:
        """Whether the right cluster was compared; if not, nothing follows from what was seen."""
        return not any(finding.rule == rule.CLUSTER_ID.id for finding in self.findings)

    @property
    def has_entities(self) -> bool:
        """Whether anything was compared; not so when the selection leaves nothing."""
        return self.complete or bool(self.entities or self.in_sync or self.pending or self.ignored)

    @property
    def digest(self) -> ClusterDigest:
        """Return what a report of many clusters keeps of it."""
        found = builtins(self.summary)
        row = FleetRow(
            cluster=self.cluster.name,
            cluster_id=self.cluster.id,
            status=FleetStatus(self.status),
            read_at=self.read_at if self.snapshot is None else self.snapshot.captured_at,
            is_snapshot=self.snapshot is not None,
            entities=found if self.is_known else {},
            differences=len(self.entities) if self.is_known else 0,
            rules=() if self.is_known else (rule.CLUSTER_ID.id,),
        )
        return ClusterDigest(
            row=row,
            counts={"changes": len(self.entities), **{name: found[name] for name in (*DriftClass, "pending")}},
            fingerprint=self.fingerprint,
            has_entities=self.has_entities,
            is_partial=not self.complete,
        )


def make_drift(plan: Plan, *, ignores: Collection[Ignore] = (), today: date = date.min) -> Drift:
    """Read a plan as drift: what it would change, and what is in scope and not declared.

    What cannot be declared, excluded or removed is a finding and no drift, which would never end. The base of the plan
    is the baseline, and without one the cluster is compared with the files. `ignores` is what does not count.
    """
    wrong_cluster = tuple(finding for finding in plan.findings if finding.rule == rule.CLUSTER_ID.id)
    if wrong_cluster:  # What differs on a cluster that the files are not for says nothing.
        plan, ignores = replace(plan, changes=(), unmanaged=(), unchanged=0, findings=wrong_cluster), ()
    baseline = plan.base
    found: list[Drifted | Pending] = [read_change(change) for change in plan.changes]
    in_scope = [item for item in plan.unmanaged if item.in_scope]
    found += [read_unmanaged(item, baseline) for item in in_scope if not is_out_of_reach(item.entity)]
    found.sort(key=lambda each: each.entity.address)
    active = [each for each in ignores if each.is_active(today)]
    entities: list[Drifted] = []
    ignored: list[Ignored] = []
    used: set[int] = set()
    for drifted in found:
        if isinstance(drifted, Drifted):
            counted, left_out = _split(drifted, active, used)
            entities += counted
            ignored += left_out
    findings = [finding for finding in plan.findings if finding.rule in _FINDINGS]
    findings += check_ignores(ignores, used, today)
    unvalued = 0 if baseline is None else sum(each.entity in baseline.unvalued for each in entities)
    if unvalued:
        text = (
            f"the applied values of {unvalued:,} of the entities that differ are neither in the receipt nor in a "
            "commit that git has here, so their changes count as drift even if they are pending; fetch the git history "
            "(fetch-depth: 0), or give a git ref as the baseline"
        )
        findings.append(rule.BASELINE_VALUES_UNKNOWN.finding(text))
    undeclared = sum(change.cause is Cause.UNDECLARED for change in plan.changes)
    return Drift(
        cluster=plan.header.cluster,
        read_at=plan.header.created_at,
        entities=tuple(entities),
        in_sync=plan.unchanged,
        findings=tuple(by_severity(findings)),
        options=convert(plan.header.options, DriftOptionsRecord, from_attributes=True),
        snapshot=plan.header.snapshot,
        baseline=Baseline() if baseline is None else convert(baseline.base, Baseline, from_attributes=True),
        pending=tuple(each for each in found if isinstance(each, Pending)),
        ignored=tuple(ignored),
        managed=len(plan.declared or ()),
        unmanaged_in_scope=len(in_scope) + undeclared,
        unmanaged_out_of_scope=len(plan.unmanaged) - len(in_scope),
    )


def _split(drifted: Drifted, ignores: Sequence[Ignore], used: set[int]) -> tuple[list[Drifted], list[Ignored]]:
    """Return what counts of an entity that differs, if anything, and what is ignored, by the first ignore that fits.

    The ids of the ignores are added to those that are used.
    """
    counted: list[DriftedKey] = []
    by_ignore: dict[int, list[DriftedKey]] = {}
    for key in drifted.keys:
        fitting = (place for place, each in enumerate(ignores) if each.covers(drifted.entity, key.key))
        place = next(fitting, None)
        (counted if place is None else by_ignore.setdefault(place, [])).append(key)
    fields = structs.asdict(drifted)
    del fields["address"]
    left_out = []
    for place, keys in by_ignore.items():
        ignore = ignores[place]
        used.add(id(ignore))
        about_it = {"reason": ignore.reason, "expires": ignore.expires, "ignored_by": ignore.location}
        left_out.append(Ignored(**fields | about_it | {"keys": tuple(keys)}))
    return [structs.replace(drifted, keys=tuple(counted))] if counted else [], left_out
