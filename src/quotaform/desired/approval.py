"""Reads approvals.yaml."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from quotaform.desired.file_report import FileReport, check_shape
from quotaform.desired.schema import approvals as approvals_schema
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import read_expires, read_values
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.finding import CHANGE, DELETE, MOST_APPROVALS, MOST_DAYS, Approval, Finding
from quotaform.model.rule import APPROVABLE, RULES
from quotaform.model.scope import is_glob, pattern_problem
from quotaform.model.text import did_you_mean, quote


def read_approvals(source: SourceFile, today: date) -> tuple[tuple[Approval, ...], list[Finding]]:
    """Return the approvals in a file, and its problems.

    `today`: the day (UTC) from which on an approval may be valid for `MOST_DAYS` at most.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return (), [text]
    document = read_document(source.name, text)
    report = FileReport(document)
    approvals: list[Approval] = []
    if document.root is not None:
        with suppress(StopReadingError):
            approvals = _read_items(document.root, report, today)
            check_shape(approvals_schema, report)
    report.findings.extend(document.problems)
    return tuple(approvals), report.findings.all()


def _read_items(root: Any, report: FileReport, today: date) -> list[Approval]:
    items = root if isinstance(root, list) else []
    if len(items) > MOST_APPROVALS:
        text = f"the file contains more than the limit of {MOST_APPROVALS:,} approvals; remove some"
        report.add_at(rule.TOO_LARGE, text, report.document.place(items, MOST_APPROVALS).key)
        del items[MOST_APPROVALS:]
    found: dict[tuple[object, ...], Approval] = {}
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        approval = _read_item(items, index, report, today)
        if approval is None:
            continue
        about = approval.rule, approval.entity, approval.cluster, approval.action, approval.to
        first = found.setdefault(about, approval)
        if first is not approval:
            text = (
                f"{approval.rule} of {approval.target} is approved twice; it is also at {first.location}. Keep one of "
                "the two"
            )
            report.add(rule.DUPLICATE_APPROVAL, text, items, index, address=approval.entity.address)
    return list(found.values())


def _read_item(items: list[Any], index: int, report: FileReport, today: date) -> Approval | None:
    """Return an approval; `None` if anything is wrong with it, of which the schema finds the rest."""
    item: dict[str, Any] = items[index]
    name, entity, expires = _read_rule(item, report), _read_entity(item, report), _read_expires(item, report, today)
    reason, approver, action = item.get("reason"), item.get("approver"), item.get("action", CHANGE)
    cluster = item.get("cluster")
    to = _read_to(item, report, entity, name, action)
    if (
        name is None
        or entity is None
        or expires is None
        or not isinstance(reason, str)
        or not isinstance(approver, str)
        or action not in (CHANGE, DELETE)
        or not isinstance(item.get("cluster", ""), str)
        or to is None
    ):
        return None
    location = report.document.place(items, index).key
    return Approval(
        rule=name,
        entity=entity,
        cluster=cluster,
        reason=reason,
        approver=approver,
        expires=expires,
        action=action,
        to=to,
        location=location,
    )


def _read_rule(item: dict[str, Any], report: FileReport) -> str | None:
    name = item.get("rule")
    if not isinstance(name, str) or name in APPROVABLE:
        return name if isinstance(name, str) else None
    known = RULES.get(name)
    if known is None or not known.is_blocking:
        text = f"{quote(name)} is not a rule that can be approved{did_you_mean(name, APPROVABLE) or '.'} "
        text += f"The rules are {', '.join(APPROVABLE)}"
    elif known.override is None:
        text = f"{name} cannot be approved: {known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
    else:
        text = f"{name} is not about one entity, so it cannot be approved here; plan with {known.override}"
    report.add(rule.BAD_APPROVAL, text, item, "rule")
    return None


def _read_entity(item: dict[str, Any], report: FileReport) -> Entity | None:
    address = item.get("address")
    if not isinstance(address, str) or not address:
        return None
    try:
        entity = parse_address(address)
    except ValueError as error:
        text = str(error)
    else:
        problems = (pattern_problem(name) for _, name in entity.parts if name is not None and is_glob(name))
        problem = next((each for each in problems if each is not None), None)
        if entity.address == address and problem is None:
            return entity
        text = problem or f"{quote(address)} is not in canonical form; write {entity.address}"
    report.add(rule.BAD_APPROVAL, f"address: {text}", item, "address")
    return None


def _read_to(
    item: dict[str, Any], report: FileReport, entity: Entity | None, name: str | None, action: object
) -> tuple[tuple[str, float], ...] | None:
    """Return the values that an approval depends on, none if it depends on none; `None` if they are wrong."""
    raw = item.get("to")
    if raw is None:
        return None if "to" in item else ()
    if action == DELETE or name == rule.DEFAULT_ENTITY.id:
        what = f"an approval with action: {DELETE}" if action == DELETE else name
        text = f"to: {what} concerns the whole entity; remove this field"
        report.add(rule.BAD_APPROVAL, text, item, "to")
        return None
    if not isinstance(raw, dict) or not raw:
        return None
    values = read_values(raw, entity, report)
    return tuple(sorted(values.items())) if len(values) == len(raw) else None


def _read_expires(item: dict[str, Any], report: FileReport, today: date) -> date | None:
    latest = today + timedelta(MOST_DAYS)
    expires = read_expires(item, report, str(latest))
    if expires is None or expires <= latest:
        return expires
    text = f"expires: {expires} is over {MOST_DAYS} days ahead; write {latest} or earlier"
    report.add(rule.BAD_DATE, text, item, "expires")
    return None
