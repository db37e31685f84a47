"""What an apply did, as a person reads it, as a page, and as the comment that takes the place of that of its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quotaform.apply.freshness import Freshness
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quotas import Action
from quotaform.model.rule import FindingRule
from quotaform.model.text import inert
from quotaform.plan.digest import ClusterDigest, FleetStatus
from quotaform.plan.page import MARKER, change_sections
from quotaform.plan.receipt import Receipt, Result
from quotaform.report.comment import Marker
from quotaform.report.report import Report
from quotaform.report.text import PLAIN, Style, clusters_line, counted

_RESULT_WORDS = {
    Result.REFUSED: "refused by the broker",
    Result.UNCONFIRMED: "accepted, but not visible before the time limit",
    Result.OVERWRITTEN: "accepted, but changed by somebody else since",
    Result.UNKNOWN: "of unknown outcome (the change may be in effect, now or within a minute)",
    Result.NOT_ATTEMPTED: "not attempted",
}
"""What became of entities that do not hold what the plan says."""
_DONE = {
    Action.CREATE: "Creation complete",
    Action.UPDATE: "Modifications complete",
    Action.DELETE: "Destruction complete",
}
_SHOWN = 10


def render_receipt(receipt: Receipt, style: Style = PLAIN) -> str:
    """Return what was done to each entity, what failed, by reason, and the last line in Terraform's words."""
    lines, problem = [], receipt.interruption
    if len(receipt.results) <= 100:  # Of more entities, the last line has the numbers.
        for item in receipt.results:
            if item.result is Result.APPLIED:
                lines.append(f"{item.entity.address}: {_DONE[item.action]}")
            elif item.result is Result.ALREADY_APPLIED:
                lines.append(f"{item.entity.address}: Already applied")
    for result, text in result_words(receipt).items():
        reasons: dict[str, list[str]] = {}
        for item in receipt.results:
            if item.result is result:
                reasons.setdefault(item.message or "", []).append(item.entity.address)
        for message, addresses in reasons.items():
            why = f": {inert(message)}" if message else ""
            lines.append(style.paint(f"{counted(len(addresses), 'entity')} {text}{why}", "red"))
            lines += [f"    {address}" for address in addresses[:_SHOWN]]
            if len(addresses) > _SHOWN:
                lines.append(f"    ... and {len(addresses) - _SHOWN:,} more (all are in the receipt)")
    if problem:
        lines.append(f"Interrupted by {problem}.")
    if not receipt.is_complete:
        lines.append(
            f"Error: {effect_words(receipt)}. Nothing is rolled back. "
            "Run the same command again to complete the apply; quotaform plan shows what is left."
        )
    last = resources_line([receipt.digest], is_complete=receipt.is_complete)
    lines.append(style.paint(last, "green" if receipt.is_complete else "red"))
    return "\n".join(lines) + "\n"


def result_words(receipt: Receipt) -> dict[Result, str]:
    """Return what became of entities that do not hold what the plan says, in words, by result."""
    not_confirmed = "accepted, but not confirmed, because the apply was interrupted"
    return {**_RESULT_WORDS, Result.UNCONFIRMED: not_confirmed} if receipt.interruption else _RESULT_WORDS


def effect_words(receipt: Receipt) -> str:
    """Return whether the changes of a plan are in effect, in words.

    This is unknown for an accepted change if an interrupt ended the read-back.
    """
    if receipt.is_complete:
        return "all changes are in effect"
    is_unknown = {Result.UNKNOWN, Result.UNCONFIRMED} if receipt.interruption else {Result.UNKNOWN}
    if all(item.result.holds or item.result in is_unknown for item in receipt.results):
        return "it is not known whether all changes are in effect"
    return "not all changes are in effect"


def resources_line(receipts: Sequence[ClusterDigest], *, is_complete: bool) -> str:
    """Return how many entities were created, updated and deleted, in Terraform's words, and how many were not."""
    added, changed, destroyed = (sum(receipt.counts[action] for receipt in receipts) for action in Action)
    tally = sum((Counter(receipt.tally) for receipt in receipts), Counter[Result]())
    already = f" ({tally[Result.ALREADY_APPLIED]} already applied)" if tally[Result.ALREADY_APPLIED] else ""
    left = [f"{tally[each]} {each.value.replace('-', ' ')}" for each in _RESULT_WORDS if tally[each]]
    parts = ", ".join(left).replace("refused", "failed")
    return (
        f"Apply {'complete' if is_complete else 'incomplete'}! Resources: {added} added, {changed} changed, "
        f"{destroyed} destroyed{already}{f'; {parts}' if parts else ''}."
    )


def render_receipt_total(outcomes: Sequence[ClusterOutcome[ClusterDigest]], style: Style = PLAIN) -> str:
    """Return what was applied to all clusters together, and which are not as planned."""
    receipts = values_of(outcomes)
    complete = sum(receipt.row.status is not FleetStatus.INCOMPLETE for receipt in receipts)
    is_complete = complete == len(outcomes)
    return (
        f"{clusters_line(outcomes, f'{complete} complete', len(receipts) - complete, 'incomplete')}\n"
        f"{style.paint(resources_line(receipts, is_complete=is_complete), 'green' if is_complete else 'red')}\n"
    )


def render_dry_run(outcomes: Sequence[ClusterOutcome[Freshness]], style: Style = PLAIN) -> str:
    """Return what an apply would do to all clusters together, and which it would not do it to."""
    checked = values_of(outcomes)
    to_do = Counter(change.action for each in checked for change in each.pending)
    applied = sum(len(each.applied) for each in checked)
    lines = [clusters_line(outcomes, f"{len(checked)} can be applied")] if len(outcomes) > 1 else []
    is_complete = len(checked) == len(outcomes)
    resources = (
        f" Resources: {to_do[Action.CREATE]} to add, {to_do[Action.UPDATE]} to change, "
        f"{to_do[Action.DELETE]} to destroy{f' ({applied} already applied)' if applied else ''}."
    )
    line = f"Dry run {'complete' if is_complete else 'failed'}!{resources if checked else ''} Nothing was written."
    return "\n".join([*lines, style.paint(line, "green" if is_complete else "red")]) + "\n"


def receipt_report(receipt: Receipt) -> Report:
    """Return what became of each entity, what failed first, and what the plan said."""
    header, done = receipt.plan.header, receipt.digest
    added, changed, destroyed = (done.counts[each] for each in (Action.CREATE, Action.UPDATE, Action.DELETE))
    if not receipt.results:
        state = "no changes"
    elif receipt.is_complete:
        state = f"applied ({added} added, {changed} changed, {destroyed} destroyed)"
    else:
        state = "partly applied" if done.wrote_anything else "not applied"
    what = effect_words(receipt)
    commit = f", commit {inert(header.source.commit[:7])}" if header.source.commit else ""
    texts = result_words(receipt)
    failed = (
        FindingRule("", "", each.result.value, is_blocking=True).finding(
            ": ".join(filter(None, (texts[each.result], inert(each.message or "")))), address=each.entity.address
        )
        for each in receipt.results
        if not each.result.holds
    )
    results = {each.entity: each.result.value.replace("-", " ") for each in receipt.results}
    return Report(
        title="Kafka quota plan for",
        name=header.cluster.name,
        state=state,
        about=(
            f"Plan id {receipt.plan.plan_id}{commit}, applied by {inert(receipt.applied_by)} from {receipt.started_at} "
            f"to {receipt.finished_at}",
            *([f"Interrupted by {receipt.interruption}."] if receipt.interruption else []),
        ),
        findings=tuple(failed),
        caution=f"{what[0].upper()}{what[1:]}. Nothing is rolled back.",
        sections=tuple(change_sections(receipt.plan.changes, results)),
        nothing="There was nothing to apply.",
        total=resources_line([done], is_complete=receipt.is_complete),
        marker=Marker(
            MARKER, header.cluster.name, header.source.directory, None if receipt.interruption else len(receipt.results)
        ),
    )
