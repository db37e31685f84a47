"""What guards, lints, policies and drift find: `rules-*.txt` hold a cluster and its files and, below, what is found.

Lines are read as in `table`. An entity has its values, `1MiB/s -> 2MiB/s` if the files change one; before it
is `gone` if the files delete it, `live` if they do not mention it, `base` if it is of the base. `9 * user=u{}` are nine
of them, whose values are 10 to 18 where `{}` stands for them. What the other words mean is said in `Case`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby
from pathlib import Path
from re import fullmatch, sub
from tempfile import TemporaryDirectory

import pytest
import yaml
from msgspec import structs

from quotaform.apply.freshness import check_fresh, require_fresh
from quotaform.apply.run import require_guards
from quotaform.desired.config import Config, read_config
from quotaform.desired.policy.reader import Policy, read_policy
from quotaform.desired.tree import SourceFile
from quotaform.drift.drift import make_drift
from quotaform.drift.report import render_drift
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import StaleError
from quotaform.model.finding import CHANGE, Allowance, Approval, Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.records.record import in_order
from quotaform.model.scope import ALL, Selection
from quotaform.model.settings import Capacity
from quotaform.model.units import parse_value
from quotaform.plan.blast_radius import Principals, make_blast_radius, size_order
from quotaform.plan.check.check import CHECKS, with_findings
from quotaform.plan.check.guard import GUARDS, Check, ClusterBase, Facts, Safeguards
from quotaform.plan.check.lint import LintFacts, check_lints, unused_ignores
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.records import load_plan
from quotaform.report.comment import COMMENT_BYTES
from quotaform.report.finding import approval_item
from quotaform.repository.repository import Repository
from quotaform.resolve.effect import effect_text, fallback_text, value_text
from tests.builder import HEADER, declare, dumped_plan, plan_of
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told, tables_of
from tests.markdown import markdown_of
from tests.scripted_gateway import Clock

TODAY = date(2026, 11, 20)
MOST_OF_A_RULE = 3
LAB = "clusters: {lab: {snapshot: lab.json}}\n"
KEYS = {name.partition("_")[0]: key for name, key in QUOTA_KEYS.items()}


@dataclass
class Case:
    """What the lines of a case say."""

    live: dict[Entity, Values] = field(default_factory=dict)
    files: dict[Entity, Values] = field(default_factory=dict)
    base: dict[Entity, Values] = field(default_factory=dict)
    expires: dict[Entity, date] = field(default_factory=dict)
    owners: dict[Entity, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)  # `quotaform.yaml: ...`, and the same with `base`
    allowances: list[Allowance] = field(default_factory=list)  # `allow RULE=N`
    approvals: list[Approval] = field(default_factory=list)  # `approve {rule: ..., address: ...}`
    earlier: list[Approval] = field(default_factory=list)  # `base approve {...}`
    capacity: dict[str, float] = field(default_factory=dict)  # `capacity producer 1MiB/s`
    selection: Selection = ALL  # `select user=b`
    policies: list[Policy] = field(default_factory=list)  # `policy {"required": ["owner"]}`
    pin: str | None = None  # `pin ID`
    now: dict[Entity, Values] = field(default_factory=dict)  # `now user=a: producer 1`: what a cluster holds by now
    principals: list[Entity] = field(default_factory=list)  # `principal user=a`
    has_origins: bool = False

    @classmethod
    def read(cls, text: Text) -> Case:
        case = cls()
        for line in str(text).splitlines():
            case.read_line(line)
        return case

    def read_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        is_base = line.startswith(("base approve ", "base quotaform.yaml: "))
        if is_base:
            word, _, rest = rest.partition(" ")
        if word == "quotaform.yaml:":
            name = "base" if is_base else "own"
            self.config[name] = f"{self.config.get(name, '')}{rest}\n"
        elif word == "allow":
            self.allowances.append(Allowance.parse(rest))
        elif word == "approve":
            (self.earlier if is_base else self.approvals).append(approval_of(rest))
        elif word == "capacity":
            self.capacity |= values_of(rest)[1]
        elif word == "select":
            self.selection = Selection((rest,))
        elif word == "policy":
            policy, problems, _ = read_policy(SourceFile("p.json", rest))
            assert policy is not None, problems
            self.policies.append(policy)
        elif word == "principal":
            self.principals.append(parse_address(rest))
        elif word == "pin":
            self.pin = rest
        else:
            self.read_entities(line)

    def read_entities(self, line: str) -> None:
        matched = fullmatch(
            r"(gone |live |base |now )?(?:(\d+) \* )?(.+?)(?:: (.*?))?(?:; expires (.*?))?(?:; owner (.*))?", line
        )
        assert matched
        state, number, address, said, expires, owner = matched.groups()
        for index in range(int(number or 1)):
            before, after = values_of((said or "").replace("{}", str(index + 10)))
            entity = parse_address(address.format(f"{index:04}"))
            if state == "base ":
                self.base[entity] = after
                continue
            if state == "now ":
                self.now[entity] = after
                continue
            if before:
                self.live[entity] = before
            if state != "live ":
                self.files[entity] = {} if state else after
            if expires:
                self.expires[entity] = date.fromisoformat(expires)
            if owner:
                self.owners[entity] = owner

    @property
    def facts(self) -> Facts:
        configs = {name: config_of(text) for name, text in {"own": "", **self.config}.items()}
        own, base = (
            None if (config := configs.get(name)) is None else Safeguards(config, config.clusters["lab"])
            for name in ("own", "base")
        )
        assert own is not None
        assert own.cluster is not None
        pin, capacity = self.pin or own.pinned_id, Capacity(values=self.capacity)
        own = structs.replace(own, cluster=replace(own.cluster, cluster_id=pin, capacity=capacity))
        return Facts(
            desired={
                entity: declare({entity: values}, expires=self.expires.get(entity), owner=self.owners.get(entity))[
                    entity
                ]
                for entity, values in self.files.items()
            },
            actual=self.live,
            safeguards=own,
            selection=self.selection,
            policies=tuple(self.policies),
            base=ClusterBase(
                declared=DeclaredBase(Base(ref="origin/main", commit="a91be02"), declare(self.base))
                if self.base
                else None,
                safeguards=base,
                approvals=frozenset(self.earlier) if self.earlier else None,
            ),
            approvals=dict.fromkeys(self.approvals),
            today=TODAY,
        )


def config_of(text: str) -> Config:
    config, problems = read_config(
        SourceFile("quotaform.yaml", text if text.startswith("clusters:") else LAB + text), Path()
    )
    assert problems == []
    return config


def approval_of(text: str) -> Approval:
    item = {"reason": "known", "approver": "carol", "expires": date(2026, 11, 30), **yaml.safe_load(text)}
    to = {KEYS[key].name: value_of(key, str(value)) for key, value in item.pop("to", {}).items()}
    return Approval(to=in_order(to) or None, **item)


def value_of(key: str, text: str) -> float:
    try:
        return parse_value(KEYS[key], text)
    except ValueError:
        return float(text)


def values_of(text: str) -> tuple[Values, Values]:
    """Return the values before and after of `producer 1MiB/s -> 2MiB/s, consumer 1MiB/s`."""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for part in filter(None, text.split(", ")):
        key, _, values = part.partition(" ")
        was, arrow, will = values.partition("->")
        for side, value in ((before, was), (after, will if arrow else was)):
            if value.strip():
                side[KEYS[key].name] = value_of(key, value.strip())
    return before, after


def told_of(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each finding, for the first of each rule where there are many."""
    for (name, _), group in groupby(findings, lambda found: (found.rule, found.blocking)):
        many = list(group)
        for found in many[:MOST_OF_A_RULE]:
            about = "".join(f" {each}" for each in (found.address, found.key) if each)
            lifted = f"  Allowed by: {found.allowed_by}" if found.allowed_by else ""
            lifting = f"  Allow: {found.override or '(nothing)'}" if found.blocking else ""
            yield f"{'blocks' if found.blocking else found.severity}: {name}{about}: {found.message}{lifted}{lifting}"
        if len(many) > MOST_OF_A_RULE:
            yield f"... {len(many) - MOST_OF_A_RULE} more of {name}"


def plan_for(case: Case, checks: Iterable[Check] = GUARDS) -> Plan:
    """Return the plan of a case, with what checks find in it; only with a base it tells what a change is due to."""
    facts = case.facts
    base = facts.base.declared if case.has_origins else None
    header = structs.replace(HEADER, options=PlanOptions.of(limits=facts.safeguards.config.guard_limits))
    if base is not None:
        header = structs.replace(header, source=structs.replace(header.source, base=base.base))
    plan = plan_of(facts.desired, facts.actual, allowances=case.allowances, header=header, base=base)
    return with_findings(plan, facts, checks)


def of_guard(text: Text, checks: Iterable[Check] = GUARDS) -> Lines:
    """Yield what guards find in a plan; it is saved and read again, too."""
    plan = plan_for(Case.read(text), checks)
    assert plan.is_applyable is not any(found.blocking for found in plan.findings)
    assert dumped_plan(load_plan(dumped_plan(plan), "plan.json")) == dumped_plan(plan)
    yield from told_of(plan.findings)
    if item := approval_item(found for found in plan.findings if found.blocking):
        yield f"to approve: {item}"


def of_change(text: Text) -> Lines:
    """Yield what each change of a plan does to the effective limits, and what it is due to."""
    case = Case.read(text)
    case.has_origins = True
    for change in plan_for(case).changes:
        yield f"{change.action} {change.entity.address}{f' ({change.origin})' if change.origin else ''}"
        for row, effect in zip(change.changes, change.effects, strict=True):
            before, after = (
                "not set" if each is None else value_text(row.key, each) for each in (row.before, row.after)
            )
            origin = change.origin_of(row)
            yield f"  {row.key} {before} -> {after} {effect_text(row, effect)}{f' {origin}' if origin else ''}"
            if row.after is None:
                yield f"  {fallback_text(row.key, effect.after)}"


def of_drift(text: Text) -> Lines:
    """Yield the drift of a cluster from its files."""
    case = Case.read(text)
    ignores = config_of(case.config.get("own", "")).drift_ignore
    drift = make_drift(plan_for(case, ()), ignores=ignores, today=TODAY)
    yield from filter(None, render_drift(drift).splitlines()[2:])
    yield from told_of(drift.findings)


def of_fresh(text: Text) -> Lines:
    """Yield what a plan still does to a cluster that holds what `now` says meanwhile, or why it is stale."""
    case = Case.read(text)
    actual = {**case.live, **case.now}
    fresh = check_fresh(plan_for(case, ()).changes, actual)
    for name, part in (("pending", fresh.pending), ("applied", fresh.applied), ("stale", fresh.stale)):
        if part:
            yield f"{name}: {' '.join(change.entity.address for change in part)}"
    try:
        require_fresh(fresh, actual)
    except StaleError as error:
        yield from str(error).splitlines()


def of_saved(text: Text) -> Lines:
    """Yield why a repository refuses a saved plan, whose limits are of the base and whose approvals are `base`, too."""
    case = Case.read(text)
    header = structs.replace(HEADER, options=PlanOptions.of(limits=config_of(case.config.get("base", "")).guard_limits))
    plan = plan_of(declare(case.files), case.live, allowances=case.allowances, header=header)
    with TemporaryDirectory() as folder:
        if config := case.config.get("own"):
            Path(folder, "quotaform.yaml").write_text(f"{LAB}{config}")
        items = [approval_texts(each) for each in case.approvals]
        Path(folder, "approvals.yaml").write_text(yaml.safe_dump(items))
        repository = Repository.at(Path(folder, "quotas.d"), Path(folder, "quotaform.yaml"))
        try:
            require_guards(replace(plan, approvals=tuple(case.earlier)), repository, Clock())
        except StaleError as error:
            yield from (line.strip() for line in str(error).splitlines()[1:-1])


def approval_texts(approval: Approval) -> dict[str, object]:
    names = ("rule", "address", "reason", "approver", "expires")
    return {"action": approval.action or CHANGE} | {name: getattr(approval, name) for name in names}


def of_principal(text: Text) -> Lines:
    """Yield what a plan changes of the limits of those who connect, the largest change first."""
    case = Case.read(text)
    principals = Principals.of("list", case.principals)
    _, changes = make_blast_radius(principals, case.live, plan_for(case, ()).changes, file="all.csv")
    for row in sorted(changes(), key=size_order):
        buckets = " -> ".join(",".join(each.level.bucket) for each in (row.before, row.after) if each.level)
        factor = "" if row.factor is None else f" by {row.factor:g}"
        yield f"{row.principal.address} {row.key}: {row.direction}{factor} ({buckets})"


def of_markdown(text: Text) -> Lines:
    """Yield a plan as a comment, without its last line."""
    case = Case.read(text)
    case.has_origins = True
    lines = markdown_of("plan", plan_for(case)).splitlines()
    yield from (f"  {line}" for line in lines if line and not line.startswith("<sub>Plan id"))


def of_comment(text: Text) -> Lines:
    """Yield a plan as a comment that has no room for all of it; of lines that differ in numbers alone the first one."""
    case = Case.read(text)
    case.has_origins = True
    written = markdown_of("plan", plan_for(case))
    assert len(written.encode()) <= COMMENT_BYTES
    lines = [line for line in written.splitlines() if line and not line.startswith("<sub>Plan id")]
    for _, group in groupby(lines, lambda line: sub(r"[\d,.]+", "0", line)):
        first, *others = group
        yield f"  {first}"
        if others:
            yield f"  ... {len(others)} more like this"


def of_plan(text: Text) -> Lines:
    """Yield what guards and lints find in a plan."""
    return of_guard(text, (*CHECKS, *GUARDS))


def of_lint(text: Text) -> Lines:
    """Yield what lints find in the files of a cluster, and which ignores are unused."""
    case = Case.read(text)
    facts = case.facts
    settings, cluster = facts.safeguards.config.lints, facts.safeguards.cluster
    assert cluster
    quotas: Quotas = {entity: values for entity, values in {**case.live, **case.files}.items() if values}
    linted = check_lints(
        LintFacts(
            desired=facts.desired,
            quotas=quotas,
            settings=settings,
            capacity=cluster.capacity,
            today=TODAY,
            selection=case.selection,
        )
    )
    yield from told_of([*linted.findings, *unused_ignores(settings.ignores, linted.used, TODAY)])


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_what_each_rule_finds(golden: Golden, name: str) -> None:
    check_told(golden, f"rules-{name}.txt", TABLES[name])
