"""Small plans, in one line, and documents as text in one piece; the product writes them line by line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date
from itertools import cycle
from typing import Any

from quotaform.model import rule
from quotaform.model.alteration import Alteration, apply_ops
from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, Described
from quotaform.model.finding import Finding, Location, by_severity
from quotaform.model.quotas import Cause, Desired, Entry, Quotas, Values
from quotaform.model.records.document import sealed_lines
from quotaform.model.records.record import ClusterRecord
from quotaform.model.settings import DEFAULT_GUARD_LIMITS, GuardLimits
from quotaform.plan.check.check import CHECKS, lift, with_findings
from quotaform.plan.check.guard import Check, Facts, check_changes
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import EntityChange, Plan, PlanHeader, PlanSource
from quotaform.plan.receipt import EntityResult, Receipt, Result, SavedReceipt, receipt_lines
from quotaform.plan.records import plan_lines
from quotaform.resolve.index import QuotaIndex, Resolved, request_of

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
MIB = 1024.0**2

HEADER = PlanHeader(
    cluster=ClusterRecord(name="lab", id="3JxQ0v7pT2a"),
    created_at="2026-11-20T09:12:44Z",
    source=PlanSource(directory="quotas.d", commit="4f2c1d9", dirty=False),
)


def declare(
    wanted: Mapping[Entity, Values],
    *,
    cause: Cause = Cause.TOMBSTONE,
    expires: date | None = None,
    **more: str | None,
) -> Desired:
    """What files say that declare these quotas; no values mean `state: absent`."""
    return {
        entity: Entry(
            entity=entity,
            values=values,
            location=Location("quotas.d/all.yaml", line, 5),
            cause=Cause.ENTRY if values else cause,
            expires=expires,
            owner=more.get("owner"),
            reason=more.get("reason"),
        )
        for line, (entity, values) in enumerate(wanted.items(), start=2)
    }


def plan_of(wanted: Mapping[Entity, Values] | Desired, actual: Quotas, **more: Any) -> Plan:
    """The plan of files that declare these quotas on a cluster that holds those."""
    header = more.pop("header", HEADER)
    files = declare({})
    for entity, said in wanted.items():
        files = {**files, **({entity: said} if isinstance(said, Entry) else declare({entity: said}))}
    findings = more.pop("findings", ())
    plan = make_plan(diff(files, actual), files, actual, header, **more)
    return replace(plan, findings=tuple(by_severity(findings)))


def guarded(plan: Plan, limits: GuardLimits = DEFAULT_GUARD_LIMITS) -> Plan:
    """The plan with the findings of the guards that follow from it, all of which are allowed."""
    found = [*check_changes(plan, limits), *([rule.EMPTY.finding("")] if plan.declares_nothing else [])]
    allowances = {needed for finding in found if (needed := finding.allowance) is not None}
    allowed = replace(plan, allowances=tuple(sorted({*plan.allowances, *allowances})))
    lifted = lift(found, allowed.allowances, {}, date.max)[0]
    return replace(allowed, findings=tuple(by_severity([*plan.findings, *lifted])))


def findings_of(plan: Plan, facts: Facts, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    return with_findings(plan, facts, checks).findings


def altered(quotas: Quotas, alterations: Iterable[Alteration]) -> Quotas:
    """What a cluster holds once the alterations are made: an entity without values is gone."""
    result = dict(quotas)
    for alteration in alterations:
        result[alteration.entity] = apply_ops(result.get(alteration.entity, {}), alteration.ops)
    return {entity: values for entity, values in result.items() if values}


def after_apply(plan: Plan, actual: Quotas) -> Quotas:
    return altered(actual, [change.alteration() for change in plan.changes])


def described(quotas: Quotas) -> Described:
    return Described(
        cluster_name="lab",
        cluster_id="id",
        read_at="2026-11-20T09:12:44Z",
        quotas=quotas,
        heading=None,
        snapshot=None,
        entity_filter=EVERYTHING,
        keys=(),
    )


def resolve_entities(quotas: Quotas, entities: Iterable[Entity]) -> dict[Entity, Mapping[str, Resolved]]:
    resolve = QuotaIndex(quotas).resolve
    return {entity: resolve(request_of(entity)) for entity in entities}


def result_of(change: EntityChange, result: Result = Result.APPLIED, message: str = "") -> EntityResult:
    """What became of a change."""
    return EntityResult.of(change, result, message or None)


def receipt_of(plan: Plan, *results: Result, message: str = "", **more: Any) -> Receipt:
    """The receipt of an apply with these results, again and again; of one without any, everything is applied."""
    outcomes = cycle(results or (Result.APPLIED,))
    return Receipt(
        **{
            "plan": plan,
            "results": tuple(
                result_of(each, result, message) for each, result in zip(plan.changes, outcomes, strict=False)
            ),
            "applied_by": "alice",
            "started_at": "2026-11-20T09:13:00Z",
            "finished_at": "2026-11-20T09:13:01Z",
            **more,
        }
    )


def dumped_plan(plan: Plan) -> str:
    return "".join(plan_lines(plan))


def dumped_receipt(receipt: Receipt | SavedReceipt) -> str:
    return "".join(receipt_lines(receipt))


def sealed(document: Mapping[str, Any], lists: Collection[str]) -> str:
    """Return a document, however it was edited, as a file whose digest is right."""
    content = {name: item for name, item in document.items() if name != "digest"}
    return "".join(sealed_lines(content.items(), {name for name in lists if isinstance(content.get(name), list)}))
