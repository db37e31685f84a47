"""Small plans, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.check.guard.approval import lift
from quotaform.core.check.guard.change import check_changes
from quotaform.core.check.plan import CHECKS, Check, with_findings
from quotaform.core.difference import diff, make_plan
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, GuardLimits
from quotaform.core.plan import Plan, PlanHeader, PlanSource
from quotaform.core.resolve.entry import Resolved
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import request_of
from quotaform.core.resolve.resolver import Resolver
from quotaform.model.alteration import Alteration, apply_ops
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, Desired, Entry, LayerFile
from quotaform.model.finding import Finding, by_weight
from quotaform.model.location import pack_position
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, Values

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
CLIENT_KEYS = tuple(name for name, key in QUOTA_KEYS.items() if key.fits(Entity(user="a")))
ALL_KEYS_TEXT, CLIENT_KEYS_TEXT = ", ".join(QUOTA_KEYS), ", ".join(CLIENT_KEYS)

HEADER = PlanHeader(
    cluster_name="lab",
    cluster_id="3JxQ0v7pT2a",
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
            file=LayerFile("quotas.d/all.yaml"),
            position=pack_position(line, 5),
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
    return replace(plan, findings=tuple(by_weight(findings)))


def guarded(plan: Plan, limits: GuardLimits = DEFAULT_GUARD_LIMITS) -> Plan:
    """The plan with the findings of the guards that follow from it, all of which are allowed."""
    found = [*check_changes(plan, limits), *([rule.EMPTY.finding("")] if plan.declares_nothing else [])]
    allowances = {needed for finding in found if (needed := finding.allowance) is not None}
    allowed = replace(plan, allowances=tuple(sorted({*plan.allowances, *allowances})))
    lifted = lift(found, allowed.allowances, (), date.max).findings
    return replace(allowed, findings=tuple(by_weight([*plan.findings, *lifted])))


def findings_of(plan: Plan, facts: Facts, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """What checks find in a plan."""
    return with_findings(plan, facts, checks).findings


def altered(quotas: Quotas, alterations: Iterable[Alteration]) -> Quotas:
    """What a cluster holds once the alterations are made: an entity without values is gone."""
    result = dict(quotas)
    for alteration in alterations:
        result[alteration.entity] = apply_ops(result.get(alteration.entity, {}), alteration.ops)
    return {entity: values for entity, values in result.items() if values}


def resolve_entities(quotas: Quotas, entities: Iterable[Entity]) -> dict[Entity, Mapping[str, Resolved]]:
    """Resolve many concrete entities against the same quotas."""
    resolve = Resolver(QuotaIndex(quotas)).resolve
    return {entity: resolve(request_of(entity)) for entity in entities}
