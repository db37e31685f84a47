"""What follows from quotas, in the form of `test_texts`: `decided-*.txt`, whose inputs are YAML or a line of words.

`live`, `files` and `base` are quotas by the address of their entity. A name is taken as it is written, but for
`<default>`; `{}` among the files is `state: absent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from quotaform.apply.freshness import AsIfApplied
from quotaform.cluster.gateway import BrokerConfig
from quotaform.drift.drift import make_drift
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError, InvalidFilesError, QuotaformError
from quotaform.model.finding import Finding
from quotaform.model.quotas import Base, DeclaredBase, Quotas
from quotaform.plan.difference import diff, make_plan
from quotaform.resolve.effect import NO_EFFECT, Effect
from quotaform.resolve.report import render_resolve
from quotaform.resolve.request import Effective
from quotaform.resolve.request_file import RequestFile
from quotaform.resolve.resolve import Detail
from quotaform.resolve.run import ResolveRequest, ResolveRun
from tests.builder import HEADER, declare, plan_of
from tests.golden.conftest import Golden
from tests.golden.test_texts import Lines, Text, check_told
from tests.scripted_gateway import ScriptedGateway


def entity_of(address: str) -> Entity:
    """Return an entity of any shape, whose names are as they are written."""
    parts = (part.partition("=") for part in address.split(","))
    return Entity({kind: None if name == "<default>" else name.removeprefix("\\") for kind, _, name in parts})


def quotas_of(written: Mapping[str, Mapping[str, float]] | None) -> Quotas:
    return {
        entity_of(address): {key: float(value) for key, value in values.items()}
        for address, values in (written or {}).items()
    }


def of_resolved(text: Text) -> Lines:
    """Yield what resolving says of requests (`ask`), with a `plan` as if it were applied, made `on` other quotas.

    `callbacks` are those of brokers by their id, and brokers that are `unasked` cannot be asked.
    """
    asked: dict[str, Any] = yaml.safe_load(text)
    live = quotas_of(asked.get("live"))
    entities = [entity_of(address) for address in asked["ask"]]
    ips = ["ip" in entity.types for entity in entities]
    plan = None
    if "plan" in asked:
        blocked = [Finding(rule="cluster-id", message="no", blocking=True)] if "blocked" in asked else []
        made_on = quotas_of(asked["on"]) if "on" in asked else live
        plan = AsIfApplied(plan_of(quotas_of(asked["plan"]), made_on, findings=blocked))
    unasked = {broker: ConnectError("no connection") for broker in asked.get("unasked", ())}
    gateway = ScriptedGateway(
        live,
        config=BrokerConfig(asked.get("callbacks", {1: None}), unasked),
        is_live=asked.get("is_live", True),
        cluster_id=asked.get("cluster", HEADER.cluster_id),
    )
    detail = Detail(keys=tuple(asked.get("keys", ())), inherited=asked.get("inherited", True))
    request = ResolveRequest(entities=entities, has_clients=not all(ips), has_ips=any(ips), plan=plan, detail=detail)
    try:
        found = ResolveRun(request, gateway)
        rendered = "".join(render_resolve(found, found.header, found.findings))
    except QuotaformError as error:
        return [f"{type(error).__name__}: {error}"]
    severities = [f"{finding.rule}: {finding.severity}" for finding in found.findings()]
    said = [line for line in rendered.splitlines() if line and not line.startswith(("Cluster ", "Per quota key"))]
    return [*said, f"({', '.join(severities)}; {', '.join(gateway.log)})"]


def limit_of(effective: Effective) -> str:
    return "no limit" if effective.value is None else f"{effective.value:g} of {effective.source}"


def effect_text(effect: Effect, key: str) -> str:
    """Return what a change does to who sends requests."""
    if effect == NO_EFFECT:
        return "no effect"
    unlimited = ", becomes unlimited" if effect.becomes_unlimited(key) else ""
    differs = f", differs for {dict(effect.differs)}" if effect.differs else ""
    limits = f"{limit_of(effect.before)} -> {limit_of(effect.after)}"
    return f"{limits}, {effect.direction(key)}{unlimited}{differs}"


def of_changed(text: Text) -> Lines:
    """Yield each change of a plan with its cause and effect, and what of it is drift or pending.

    With a `base`, what is not declared is pruned as well, and the values of entities that are `unvalued` in it are
    not known.
    """
    given: dict[str, Any] = yaml.safe_load(text)
    live, files = quotas_of(given.get("live")), declare(quotas_of(given.get("files")))
    base = None
    if "base" in given:
        unvalued = frozenset(map(entity_of, given.get("unvalued", ())))
        base = DeclaredBase(Base("origin/main", "a91be02"), declare(quotas_of(given["base"])), unvalued)
    pruned = [entity for entity in live if entity not in files] if given.get("prune", "base" in given) else []
    plan = make_plan(diff(files, live, pruned), files, live, HEADER, base=base)
    for change in plan.changes:
        origin = f", by {change.origin}" if change.origin else ""
        yield f"{change.action} {change.entity} ({change.cause}{origin}): {change.direction}"
        for row, effect in zip(change.changes, change.effects, strict=True):
            values = " -> ".join("none" if each is None else f"{each!r}" for each in (row.before, row.after))
            shadow = effect.shadowed_by(row.entity, row.after) if row.after is not None else None
            shadowed = f", shadowed by {shadow}" if shadow else ""
            yield f"  {row.key} {values}: {effect_text(effect, row.key)}{shadowed}"
    yield f"{plan.unchanged} unchanged, {len(plan.unmanaged)} unmanaged"
    drift = make_drift(plan)
    for each in drift.entities:
        keys = ", ".join(change.key for change in each.changes)
        yield f"drift: {each.entity} is {each.drift_class} ({'declared' if each.is_declared else 'undeclared'}; {keys})"
    yield from (f"pending: {change.action} {change.entity}" for change in drift.pending)
    yield f"drift: {drift.status}, {drift.in_sync} in sync"


def of_asked(text: Text) -> Iterator[str]:
    """Yield what a file of requests asks for, or what is wrong with it."""
    content = text if isinstance(text, bytes) else text.encode()
    try:
        rows = RequestFile(content, "asked")
        yield from map(repr, rows)
    except InvalidFilesError as error:
        yield from (f"{problem.location}: {problem.message}" for problem in error.problems)
    else:
        kinds = [kind for kind, has in (("clients", rows.has_clients), ("ips", rows.has_ips)) if has]
        yield f"{len(rows)} of {' and '.join(kinds) or 'nobody'}, {rows.nameless} without a name"
        assert list(rows) == list(rows)


SUBJECTS: dict[str, Callable[[Text], Lines]] = {"resolved": of_resolved, "changed": of_changed, "asked": of_asked}


@pytest.mark.parametrize("name", SUBJECTS)
def test_this_follows_from_each_input(golden: Golden, name: str) -> None:
    check_told(golden, f"decided-{name}.txt", SUBJECTS[name])
