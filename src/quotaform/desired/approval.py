"""Reads approvals.yaml."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from quotaform.desired.field import read_expires, read_values
from quotaform.desired.schema import approvals as approvals_schema
from quotaform.desired.shape import require_shape
from quotaform.desired.tree import SourceFile
from quotaform.desired.yaml.document import Document, StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.finding import DELETE, MOST_DAYS, Approval, Finding, Location
from quotaform.model.records.record import in_order
from quotaform.model.rule import APPROVABLE, RULES
from quotaform.model.scope import is_glob, pattern_problem
from quotaform.model.text import did_you_mean, quote


def read_approvals(source: SourceFile, today: date) -> tuple[dict[Approval, Location], list[Finding]]:
    """Return the approvals in a file with their places, and its problems.

    `today`: the day (UTC) from which an approval may be valid for `MOST_DAYS` days at most.
    """
    document = read_document(source)
    found: dict[tuple[object, ...], tuple[Approval, Location]] = {}
    with suppress(StopReadingError):
        items = [] if document.root is None else require_shape(approvals_schema, document) or []
        for index, item in enumerate(items):
            approval = _read_item(item, document, today)
            if approval is None:
                continue
            about = approval.rule, approval.address, approval.cluster, approval.action, *approval.values
            first, location = found.setdefault(about, (approval, document.place(items, index).key))
            if first is not approval:
                text = f"{approval.rule} of {approval.target} is approved twice; it is also at {location}"
                text += ". Keep one of the two"
                document.add(rule.DUPLICATE_APPROVAL, text, items, index, entity=approval.entity)
    return dict(found.values()), document.findings.all()


def _read_item(item: dict[str, Any], document: Document, today: date) -> Approval | None:
    """Return an approval; `None` if anything is wrong with it."""
    errors = document.errors

    def refuse(field: str, text: str) -> None:
        document.add(rule.BAD_APPROVAL, text, item, field)

    name = item.get("rule")
    if name is not None and name not in APPROVABLE:
        known = RULES.get(name)
        if known is None or not known.is_blocking:
            guess = did_you_mean(name, APPROVABLE) or "."
            rules = ", ".join(APPROVABLE)
            refuse("rule", f"{quote(name)} is not a rule that can be approved{guess} The rules are {rules}")
        else:
            remedy = f"{known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
            refuse(
                "rule", f"{name} cannot be approved here: {f'plan with {known.override}' if known.override else remedy}"
            )
    entity = _read_entity(item, document)
    latest = today + timedelta(MOST_DAYS)
    expires = read_expires(item, document, str(latest))
    if expires is not None and expires > latest:
        text = f"expires: {expires} is over {MOST_DAYS} days ahead; write {latest} or earlier"
        document.add(rule.BAD_DATE, text, item, "expires")
    to: dict[str, float] = {}
    is_delete = item.get("action") == DELETE
    if "to" in item and (is_delete or name == rule.DEFAULT_ENTITY.id):
        what = f"an approval with action: {DELETE}" if is_delete else name
        refuse("to", f"to: {what} concerns the whole entity; remove this field")
    elif "to" in item:
        to = read_values(item["to"], entity, document)
    is_whole = item.keys() >= {"rule", "reason", "approver"}
    if document.errors > errors or entity is None or expires is None or not is_whole:
        return None
    return Approval(
        rule=item["rule"],
        address=entity.address,
        cluster=item.get("cluster"),
        reason=item["reason"],
        approver=item["approver"],
        expires=expires,
        action=DELETE if is_delete else None,
        to=in_order(to) or None,
    )


def _read_entity(item: dict[str, Any], document: Document) -> Entity | None:
    address = item.get("address")
    if address is None:
        return None
    try:
        entity = parse_address(address)
    except ValueError as error:
        problem: str | None = str(error)
    else:
        problems = (pattern_problem(name) for _, name in entity.parts if name is not None and is_glob(name))
        problem = next(filter(None, problems), None)
        if problem is None and entity.address == address:
            return entity
        problem = problem or f"{quote(address)} is not in canonical form; write {entity.address}"
    document.add(rule.BAD_APPROVAL, f"address: {problem}", item, "address")
    return None
