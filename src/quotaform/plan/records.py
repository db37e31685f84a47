"""The plan file: its records, and a plan as JSON, refused if it was modified.

Format 2.0, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused. It has two
digests: `plan_id` covers the changes and the cluster, `digest` the whole file. Neither protects against an edit that
recomputes them, so a plan file is verified when it is loaded, see `quotaform.model.records.record`.

A plan may have 100,000 changes: they are written one by one, a line per entity, so that files can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Annotated, Final, Self, TypeAlias, overload

import msgspec
from msgspec import structs

from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import SavedFileChangedError
from quotaform.model.finding import Allowance, Approval, Finding, Location
from quotaform.model.precedence import Level, level_of
from quotaform.model.quotas import NO_VALUES, ActionName, Cause, Change, SnapshotFile, Values
from quotaform.model.records.document import PLAN, Number, json_line, json_number, sealed_lines
from quotaform.model.records.record import (
    Address,
    ClusterRecord,
    Count,
    Digest,
    EntityTypeName,
    KeyValues,
    QuotaKeyName,
    Record,
    SealedFormat,
    ShapeError,
    Timestamp,
    Value,
    about,
    in_order,
    load_items,
    read_sealed,
    readable,
    require_same,
    schema_of,
    sealed_fields,
    written,
)
from quotaform.model.scope import count_problem
from quotaform.plan.backtest import ClusterBacktest
from quotaform.plan.blast_radius import BlastRadius, change_row
from quotaform.plan.check.saved import saved_plan_problems
from quotaform.plan.plan import ChangeOrigin, EntityChange, Plan, PlanHeader, PlanOptions, PlanSource, Unmanaged
from quotaform.resolve.effect import Direction, Effect
from quotaform.resolve.index import NO_LIMIT, NO_NAMES, Effective

Names: TypeAlias = Annotated[dict[str, str | None], msgspec.Meta(min_length=1, extra_json_schema=schema_of(Entity))]

# A plan may have 100,000 changes: their records hold names and numbers as JSON does, which are written and read without
# a call for each.


def dump_values(values: Values) -> dict[str, Number]:
    """Return values as JSON holds them, in the order of the keys."""
    return {key: json_number(value) for key, value in in_order(values).items()}


def load_values(values: Mapping[str, Number]) -> Values:
    """Return values as `dump_values` had them. Raises `ValueError` if one is no double."""
    return {key: load_number(value) for key, value in values.items()}


@overload
def load_number(value: Number) -> float: ...
@overload
def load_number(value: Number | None) -> float | None: ...
def load_number(value: Number | None) -> float | None:
    """Return a value as `json_number` had it. Raises `ValueError` if it is no double: it would be shown as another."""
    if value is None:
        return None
    double = float(value)
    if double != value and type(value) is int:
        raise ValueError(f"{value} is no double")
    return double


class EffectiveRecord(Record):
    """An effective limit."""

    value: Annotated[Value | None, about("The limit, or null if there is none.")]
    source: Annotated[str | None, about("The address of the entity that it comes from, or null.")]
    entity: Annotated[Names | None, about("The entity that it comes from, by type and name, or null.")]

    @classmethod
    def of(cls, limit: Effective) -> EffectiveRecord:
        """Return the record."""
        if limit is NO_LIMIT:
            return _NO_LIMIT
        value, source, _ = limit
        return cls(
            value=json_number(value),
            source=_address(source),
            entity=None if source is None else source.names,
        )

    def load(self, own: Entity, names: dict[str, str | None], level: Level | None) -> Effective:
        """Return the limit; `own` is an entity that it may come from, with its names and its level."""
        if self == _NO_LIMIT:
            return NO_LIMIT
        value = load_number(self.value)
        if self.entity == names:
            return Effective(value, own, level)
        source = None if self.entity is None else Entity.of(self.entity.items())
        return Effective(value, source, None if source is None else level_of(source))


_NO_LIMIT: Final = EffectiveRecord(value=None, source=None, entity=None)


def _address(source: Entity | None) -> str | None:
    return None if source is None else source.address


class EffectRecord(Record, omit_defaults=True):
    """The effective limits of the clients that the entity matches."""

    before: Annotated[EffectiveRecord, about("The limit before the change.")]
    after: Annotated[EffectiveRecord, about("The limit after the change.")]
    differs: Annotated[
        dict[EntityTypeName, Annotated[int, msgspec.Meta(ge=1)]] | None,
        about(
            "Entity type to the number of names under this entity that will resolve to another value; omitted if there "
            "are none.",
            {"client-id": 3},
        ),
    ] = None


class KeyRecord(Record):
    """One quota key that changes."""

    key: QuotaKeyName
    action: ActionName
    before: Annotated[Value | None, about("The live value, or null.")]
    after: Annotated[Value | None, about("The value after the change, or null.")]
    effective: EffectRecord

    @classmethod
    def of(cls, row: Change, effect: Effect) -> Self:
        """Return the record."""
        return cls(
            key=row.key,
            action=row.action,
            before=json_number(row.before),
            after=json_number(row.after),
            effective=EffectRecord(
                before=EffectiveRecord.of(effect.before),
                after=EffectiveRecord.of(effect.after),
                differs=dict(effect.differs) or None,
            ),
        )


class ChangeRecord(Record, omit_defaults=True):
    """The changes of one entity, which the broker applies atomically."""

    address: Address
    entity: Names
    action: ActionName
    reason: Annotated[
        str | None,
        about("The reason, from the files; for a deletion `state: absent`, `expired DATE`, or why it is pruned."),
    ]
    cause: Annotated[
        Cause,
        about(
            "The cause: an entry, `state: absent`, an expired entry or no current declaration in the files; or the "
            "receipt of which the plan is a revert."
        ),
    ]
    origin: Annotated[
        ChangeOrigin | None,
        about("The origin of the change: the files, the cluster or both differ from the base; null without a base."),
    ]
    direction: Annotated[Direction, about("How the effective limits change, taken together; unlimited is the largest.")]
    before: Annotated[KeyValues | None, about("All live values, or null if the entity does not exist.")]
    after: Annotated[KeyValues | None, about("All values after the change, or null if the entity will be deleted.")]
    base: Annotated[
        dict[str, Value] | None,
        about(
            "All values that the base declares, none if the entity must not exist; omitted if the base does not "
            "declare it, and without a base.",
            {"producer_byte_rate": 10485760},
        ),
    ] = None
    keys: Annotated[list[KeyRecord], about("One item per quota key that changes.", min_length=1)]
    location: Annotated[Location | None, about("The location of its entry.")]
    owner: Annotated[str | None, about("The owner, from the files.")]
    expires: Annotated[
        date | None, about("The day (UTC) on which the entry expires; omitted if it does not.", "2026-12-31")
    ] = None

    @classmethod
    def of(cls, change: EntityChange) -> Self:
        """Return the record."""
        entity = change.entity
        return cls(
            address=entity.address,
            entity=entity.names,
            action=change.action,
            reason=change.reason,
            cause=change.cause,
            origin=change.origin,
            direction=change.direction,
            before=dump_values(change.before) or None,
            after=dump_values(change.after) or None,
            base=None if change.base is None else dump_values(change.base),
            keys=list(map(KeyRecord.of, change.changes, change.effects)),
            location=change.location,
            owner=change.owner,
            expires=change.expires,
        )

    def load(self) -> EntityChange:
        """Return the change."""
        names = self.entity
        entity = Entity.of(names.items())
        level = level_of(entity)
        return EntityChange(
            entity=entity,
            before=load_values(self.before) if self.before else NO_VALUES,
            after=load_values(self.after) if self.after else NO_VALUES,
            changes=tuple(
                [Change(entity, row.key, load_number(row.before), load_number(row.after)) for row in self.keys]
            ),
            effects=tuple(
                [
                    Effect(
                        row.effective.before.load(entity, names, level),
                        row.effective.after.load(entity, names, level),
                        row.effective.differs or NO_NAMES,
                    )
                    for row in self.keys
                ]
            ),
            reason=self.reason,
            cause=self.cause,
            origin=self.origin,
            base=None if self.base is None else load_values(self.base),
            owner=self.owner,
            location=self.location,
            expires=self.expires,
        )

    def follows_from(self, change: EntityChange) -> bool:
        """Whether its fields that follow from the others are those of the change."""
        if self.address != change.entity.address or self.action is not change.action:
            return False
        for record, row, effect in zip(self.keys, change.changes, change.effects, strict=True):
            before, after = record.effective.before.source, record.effective.after.source
            if before != _address(effect.before.source) or after != _address(effect.after.source):
                return False
            if record.action is not row.action:
                return False
        return self.direction is change.direction


class SummaryRecord(Record, omit_defaults=True):
    """The number of entities per kind of change."""

    create: Annotated[Count, about("Entities that will be created.")]
    update: Annotated[Count, about("Entities that will be changed.")]
    delete: Annotated[Count, about("Entities that will be deleted.")]
    no_op: Annotated[Count, about("Declared entities without differences.")]
    loosen: Annotated[Count, about("Changed entities whose effective limits increase.")]
    tighten: Annotated[Count, about("Changed entities whose effective limits decrease.")]
    mixed: Annotated[Count, about("Changed entities with increased and decreased limits.")]
    to_unlimited: Annotated[Count, about("Changed entities with a limit that becomes unlimited.")]
    blocked: Annotated[Count, about("Findings that block the plan.")]
    in_scope: Annotated[Count, about("Live entities in scope.")]
    drift: Annotated[Count | None, about("Changed entities of origin drift; omitted without a base.")] = None
    both: Annotated[Count | None, about("Changed entities of origin both; omitted without a base.")] = None


def limit_change_lines(plan: Plan) -> Iterator[str]:
    """Yield all changes of limits by a plan as JSON lines, with the fields of `change_row`."""
    for change in plan.limit_changes():
        row = change_row(change)
        yield f"{json_line({name: json_number(cell) if type(cell) is float else cell for name, cell in row.items()})}\n"


# The file.


def checked_approval(approval: Approval) -> Approval:
    """Return an approval that was read. Raises `ValueError` if it is not what is written of any."""
    to = approval.to or {}
    if approval.entity.address != approval.address or approval.new is False or list(to) != list(in_order(to)):
        raise ValueError("it is not in canonical form")
    return approval


class PlanRecord(Record, document=PLAN, omit_defaults=True):
    """A plan file, as quotaform plan writes it and quotaform apply reads it.

    Two digests protect it: an edited plan is rejected.
    """

    plan_id: Annotated[Digest, about("A digest of the changes, the cluster and the allowances.")]
    created_at: Annotated[Timestamp, about("When the cluster or its snapshot was read, as ISO 8601 in UTC.")]
    cluster: ClusterRecord
    snapshot: Annotated[SnapshotFile | None, about("Omitted if a running cluster was read.")] = None
    source: PlanSource
    options: PlanOptions
    allowances: Annotated[
        list[str] | None, about("The rules allowed for this plan, as RULE or RULE=N; omitted if there are none.")
    ] = None
    approvals: Annotated[
        list[Approval] | None,
        about("The approvals of approvals.yaml that the plan depends on; omitted if there are none."),
    ] = None
    complete: Annotated[bool, about("Whether the plan covers all entities; false with a selection.")]
    applyable: Annotated[bool, about("Whether it has no blocking findings.")]
    summary: SummaryRecord
    blast_radius: Annotated[BlastRadius | None, about("Omitted if that was not asked for.")] = None
    backtest: Annotated[
        ClusterBacktest | None,
        about(
            "What it would have throttled of recorded usage; omitted if that was not asked for. It is "
            "information that is not applied: the plan id does not cover it."
        ),
    ] = None
    changes: Annotated[
        list[ChangeRecord], about("One item per entity that differs: deletes, updates, creates, each by address.")
    ]
    declared: Annotated[
        tuple[Address, ...] | None,
        about(
            "The addresses of all entities that the files declare for the cluster, selected or not, sorted; tombstones "
            "and expired entries are not among them."
        ),
    ] = None
    unmanaged: Annotated[list[Unmanaged], about("The live entities that no file declares, by address.")]
    findings: Annotated[list[Finding], about("Findings about the live cluster and the plan, blocking ones first.")]
    digest: Annotated[Digest, about("A digest of everything else in this file.")] = written(default="")

    def load(self, load_change: Callable[[ChangeRecord], EntityChange]) -> Plan:
        """Return the plan; the record is without changes then. Raises `ShapeError` if it holds what no plan does."""
        changes = tuple(load_items("changes", _taken(self.changes), load_change))
        with readable():
            checked_options(self.options)
            return Plan(
                header=msgspec.convert(self, PlanHeader, from_attributes=True),
                changes=changes,
                unchanged=self.summary.no_op,
                in_scope=self.summary.in_scope,
                unmanaged=tuple(self.unmanaged),
                declared=load_declared(self.declared, (change.entity for change in changes)),
                allowances=tuple(load_items("allowances", self.allowances or (), Allowance.parse)),
                approvals=tuple(load_items("approvals", self.approvals or (), checked_approval)),
                findings=tuple(self.findings),
                is_complete=self.complete,
                blast_radius=self.blast_radius,
                backtest=self.backtest,
            )


def _taken(items: list[ChangeRecord]) -> Iterator[ChangeRecord]:
    """Yield the items of a list and release them: of very many, records and changes are not in memory at once."""
    items.reverse()
    while items:
        yield items.pop()


def checked_options(options: PlanOptions) -> PlanOptions:
    """Return options that were read. Raises `ShapeError` if they protect more than a quotaform.yaml can say."""
    if problem := count_problem(options.protect):
        raise ShapeError("options.protect", f"is too long: {problem}")
    return options


def load_declared(addresses: Iterable[str] | None, entities: Iterable[Entity]) -> frozenset[Entity] | None:
    """Return the declared entities; those given are the same objects, so that their addresses are not read."""
    if addresses is None:
        return None
    known = {entity.address: entity for entity in entities}
    return frozenset(load_items("declared", addresses, lambda address: known.get(address) or parse_address(address)))


def dump_declared(declared: frozenset[Entity] | None) -> tuple[str, ...] | None:
    """Return declared entities as `load_declared` takes them."""
    return None if declared is None else tuple(sorted([entity.address for entity in declared]))


PLAN_LISTS: Final = frozenset(("changes", "declared", "unmanaged", "findings"))
"""The fields of a plan file with a line per item."""

_FORMAT: Final = SealedFormat(
    kind=PLAN,
    record=PlanRecord,
    lists=PLAN_LISTS,
    rows="changes",
    remedy="make a new plan",
)


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file in pieces: a header, then one line per entity, so that it can be compared line by line.

    What is written never has to be in memory whole.
    """
    fields = sealed_fields(_record(plan), PLAN_LISTS, changes=map(ChangeRecord.of, plan.changes))
    return sealed_lines(fields, PLAN_LISTS)


def _record(plan: Plan) -> PlanRecord:
    """Return the record of a plan without its changes, which of a large plan take the memory."""
    return PlanRecord(
        **structs.asdict(plan.header),
        plan_id=plan.plan_id,
        allowances=[str(allowance) for allowance in plan.allowances] or None,
        approvals=list(plan.approvals) or None,
        complete=plan.is_complete,
        applyable=plan.is_applyable,
        summary=SummaryRecord(**plan.summary),
        blast_radius=plan.blast_radius,
        backtest=plan.backtest,
        changes=[],
        declared=dump_declared(plan.declared),
        unmanaged=list(plan.unmanaged),
        findings=list(plan.findings),
    )


def load_plan(text: str | bytes, file: str) -> Plan:
    """Read a plan file and make sure that it is a plan, and the one that was written.

    Raises `SavedFileError` or `SavedFileChangedError`.
    """

    def load(record: PlanRecord) -> Plan:
        wrong: list[tuple[EntityChange, ChangeRecord]] = []

        def load_change(found: ChangeRecord) -> EntityChange:
            change = found.load()
            if not wrong and not found.follows_from(change):
                wrong.append((change, found))
            return change

        plan = record.load(load_change)
        if plan.plan_id != record.plan_id:
            raise SavedFileChangedError(file, "plan id", _FORMAT.remedy)
        for name, problem in saved_plan_problems(plan):
            raise ShapeError(name, problem)
        for change, found in wrong:
            require_same(ChangeRecord.of(change), found, f"changes[{plan.changes.index(change)}]")
        require_same(structs.replace(_record(plan), digest=record.digest), record)
        return plan

    return read_sealed(text, file, _FORMAT, load)
