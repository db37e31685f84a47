"""Reads approvals.yaml."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from quotaform.desired.schema import approvals as approvals_schema
from quotaform.desired.shape import require_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import read_expires, read_values
from quotaform.desired.yaml.document import Document, StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.finding import CHANGE, DELETE, MOST_APPROVALS, MOST_DAYS, Approval, Finding, Location
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
    approvals: list[Approval] = []
    if document.root is not None:
        with suppress(StopReadingError):
            _limit(document)
            approvals = _read_items(require_shape(approvals_schema, document) or [], document, today)
    return tuple(approvals), document.findings.all()


def _limit(document: Document) -> None:
    items = document.root
    if isinstance(items, list) and len(items) > MOST_APPROVALS:
        text = f"the file contains more than the limit of {MOST_APPROVALS:,} approvals; remove some"
        document.add_at(rule.TOO_LARGE, text, document.place(items, MOST_APPROVALS).key)
        del items[MOST_APPROVALS:]


def _read_items(items: list[Any], document: Document, today: date) -> list[Approval]:
    found: dict[tuple[object, ...], Approval] = {}
    for index, item in enumerate(items):
        approval = _read_item(item, document.place(items, index).key, document, today)
        if approval is None:
            continue
        about = approval.rule, approval.entity, approval.cluster, approval.action, approval.to
        first = found.setdefault(about, approval)
        if first is not approval:
            text = (
                f"{approval.rule} of {approval.target} is approved twice; it is also at {first.location}. Keep one of "
                "the two"
            )
            document.add(rule.DUPLICATE_APPROVAL, text, items, index, address=approval.entity.address)
    return list(found.values())


def _read_item(item: dict[str, Any], location: Location, document: Document, today: date) -> Approval | None:
    """Return an approval; `None` if anything is wrong with it."""
    errors = document.errors
    _check_rule(item, document)
    entity, expires = _read_entity(item, document), _read_expires(item, document, today)
    to = _read_to(item, entity, document)
    if (
        document.errors > errors
        or entity is None
        or expires is None
        or not item.keys() >= {"rule", "reason", "approver"}
    ):
        return None
    return Approval(
        rule=item["rule"],
        entity=entity,
        cluster=item.get("cluster"),
        reason=item["reason"],
        approver=item["approver"],
        expires=expires,
        action=item.get("action", CHANGE),
        to=to,
        location=location,
    )


def _check_rule(item: dict[str, Any], document: Document) -> None:
    name = item.get("rule")
    if name is None or name in APPROVABLE:
        return
    known = RULES.get(name)
    if known is None or not known.is_blocking:
        text = f"{quote(name)} is not a rule that can be approved{did_you_mean(name, APPROVABLE) or '.'} "
        text += f"The rules are {', '.join(APPROVABLE)}"
    elif known.override is None:
        text = f"{name} cannot be approved: {known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
    else:
        text = f"{name} is not about one entity, so it cannot be approved here; plan with {known.override}"
    document.add(rule.BAD_APPROVAL, text, item, "rule")


def _read_entity(item: dict[str, Any], document: Document) -> Entity | None:
    address = item.get("address")
    if address is None:
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
    document.add(rule.BAD_APPROVAL, f"address: {text}", item, "address")
    return None


def _read_to(item: dict[str, Any], entity: Entity | None, document: Document) -> tuple[tuple[str, float], ...]:
    """Return the values that an approval depends on; none if it depends on none."""
    if "to" not in item:
        return ()
    name, is_delete = item.get("rule"), item.get("action") == DELETE
    if is_delete or name == rule.DEFAULT_ENTITY.id:
        what = f"an approval with action: {DELETE}" if is_delete else name
        text = f"to: {what} concerns the whole entity; remove this field"
        document.add(rule.BAD_APPROVAL, text, item, "to")
        return ()
    return tuple(sorted(read_values(item["to"], entity, document).items()))


def _read_expires(item: dict[str, Any], document: Document, today: date) -> date | None:
    latest = today + timedelta(MOST_DAYS)
    expires = read_expires(item, document, str(latest))
    if expires is None or expires <= latest:
        return expires
    text = f"expires: {expires} is over {MOST_DAYS} days ahead; write {latest} or earlier"
    document.add(rule.BAD_DATE, text, item, "expires")
    return None
