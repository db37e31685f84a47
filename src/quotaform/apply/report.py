"""What an apply did, as a person reads it, as a page, and as the comment that takes the place of that of its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from quotaform.apply.freshness import Freshness
from quotaform.model.entity import spell_name
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quotas import Action
from quotaform.model.text import inert
from quotaform.plan.page import change_sections
from quotaform.plan.receipt import Receipt, ReceiptDigest, Result
from quotaform.plan.report_markdown import (
    MARKER,
    ChangedEntities,
    counted_table,
    full_table,
    grouped_table,
    parts_of,
)
from quotaform.report.comment import COMMENT_BYTES, Marker, Place, part, render_comment, unchanged_place
from quotaform.report.markdown import by_prefix, code, words
from quotaform.report.report import Report, Section, Table
from quotaform.report.text import PLAIN, Style, clusters_line, counted

_RESULT_WORDS = {
    Result.REFUSED: "refused by the broker",
    Result.UNCONFIRMED: "accepted, but not visible before the time limit",
    Result.OVERWRITTEN: "accepted, but changed by somebody else since",
    Result.UNKNOWN: "of unknown outcome (the change may be in effect, now or within a minute)",
    Result.NOT_ATTEMPTED: "not attempted",
}
"""What became of entities that do not hold what the plan says."""
_NOT_CONFIRMED = "accepted, but not confirmed, because the apply was interrupted"
_SUMMARY = {
    Result.REFUSED: "failed",
    Result.UNCONFIRMED: "unconfirmed",
    Result.OVERWRITTEN: "overwritten",
    Result.UNKNOWN: "unknown",
    Result.NOT_ATTEMPTED: "not attempted",
}
_DONE = {
    Action.CREATE: "Creation complete",
    Action.UPDATE: "Modifications complete",
    Action.DELETE: "Destruction complete",
}
_SHOWN = 10
_MOST_LINES = 100
"""Up to how many entities have a line each; of more, the last line has the numbers."""


def render_receipt(receipt: Receipt, style: Style = PLAIN) -> str:
    """Return what was done to each entity, what failed, by reason, and the last line in Terraform's words."""
    return "\n".join(_lines(receipt, style)) + "\n"


def _done_lines(receipt: Receipt) -> Iterator[str]:
    """Yield a line for each entity that holds what the plan says."""
    if len(receipt.results) > _MOST_LINES:
        return
    for item in receipt.results:
        if item.result is Result.APPLIED:
            yield f"{item.entity.address}: {_DONE[item.action]}"
        elif item.result is Result.ALREADY_APPLIED:
            yield f"{item.entity.address}: Already applied"


def result_words(receipt: Receipt) -> dict[Result, str]:
    """Return what became of entities that do not hold what the plan says, in words, by result."""
    return {**_RESULT_WORDS, Result.UNCONFIRMED: _NOT_CONFIRMED} if receipt.interruption else _RESULT_WORDS


def effect_words(receipt: Receipt) -> str:
    """Return whether the changes of a plan are in effect, in words.

    Of an entity whose change was accepted that is not known if an interrupt ended the read-back.
    """
    if receipt.is_complete:
        return "all changes are in effect"
    is_unknown = {Result.UNKNOWN, Result.UNCONFIRMED} if receipt.interruption else {Result.UNKNOWN}
    if all(item.result.holds or item.result in is_unknown for item in receipt.results):
        return "it is not known whether all changes are in effect"
    return "not all changes are in effect"


def _failures(receipt: Receipt) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield what became of entities that do not hold what the plan says, and which they are, by reason."""
    for result, text in result_words(receipt).items():
        reasons: dict[str, list[str]] = {}
        for item in receipt.results:
            if item.result is result:
                reasons.setdefault(item.message or "", []).append(item.entity.address)
        yield text, reasons


def _lines(receipt: Receipt, style: Style) -> Iterator[str]:
    yield from _done_lines(receipt)
    for text, reasons in _failures(receipt):
        for message, addresses in reasons.items():
            why = f": {inert(message)}" if message else ""
            yield style.paint(f"{counted(len(addresses), 'entity', 'entities')} {text}{why}", "red")
            yield from (f"    {address}" for address in addresses[:_SHOWN])
            if len(addresses) > _SHOWN:
                yield f"    ... and {len(addresses) - _SHOWN:,} more (all are in the receipt)"
    if receipt.interruption:
        yield f"Interrupted by {receipt.interruption}."
    if not receipt.is_complete:
        yield (
            f"Error: {effect_words(receipt)}. Nothing is rolled back. "
            "Run the same command again to complete the apply; quotaform plan shows what is left."
        )
    yield style.paint(
        resources_line([receipt.digest], is_complete=receipt.is_complete),
        "green" if receipt.is_complete else "red",
    )


def resources_line(receipts: Sequence[ReceiptDigest], *, is_complete: bool) -> str:
    """Return how many entities were created, updated and deleted, in Terraform's words, and how many were not."""
    added, changed, destroyed = (
        sum(receipt.applied[action] for receipt in receipts) for action in (Action.CREATE, Action.UPDATE, Action.DELETE)
    )
    tally: Counter[str] = Counter()
    for receipt in receipts:
        tally.update(receipt.tally)
    already = f" ({tally[Result.ALREADY_APPLIED]} already applied)" if tally[Result.ALREADY_APPLIED] else ""
    parts = ", ".join(f"{tally[result]} {word}" for result, word in _SUMMARY.items() if tally[result])
    return (
        f"Apply {'complete' if is_complete else 'incomplete'}! Resources: {added} added, {changed} changed, "
        f"{destroyed} destroyed{already}{f'; {parts}' if parts else ''}."
    )


_MOST_REASONS: Final = 10
_LONGEST: Final = 400


def render_receipt_markdown(
    receipt: Receipt, *, limit: int = COMMENT_BYTES, run_url: str | None = None, place: Place = unchanged_place
) -> str:
    """Return what an apply did as Markdown that no name in it can break out of.

    `limit` is how many bytes the document may have; what has no room is grouped or counted.
    """
    divided = parts_of(receipt.plan.changes)
    rows = [*divided.deletes, *divided.updates, *divided.creates, *divided.drift]
    failed = part(partial(_failed, receipt), (50, 5))
    changes = part(partial(_changes, rows), (full_table, grouped_table, counted_table))
    header, done = receipt.plan.header, receipt.digest
    added, changed, destroyed = (done.applied[each] for each in (Action.CREATE, Action.UPDATE, Action.DELETE))
    if not receipt.results:
        what = "no changes"
    elif receipt.is_complete:
        what = f"applied ({added} added, {changed} changed, {destroyed} destroyed)"
    else:
        what = "partly applied" if done.wrote_anything else "not applied"
    number = None if receipt.interruption else len(receipt.results)
    commit = [f"commit {code(header.source.commit[:7])}"] if header.source.commit else []
    by = f"applied by {code(receipt.applied_by, 100)} at {code(receipt.finished_at, 40)}"
    return render_comment(
        Marker(MARKER, header.cluster_name, header.source.directory, number),
        f"Kafka quota plan for {code(spell_name(header.cluster_name), 100)}: {what}",
        [resources_line([done], is_complete=receipt.is_complete)],
        (failed, changes),
        (changes, changes, failed),
        [f"Plan id {code(receipt.plan.plan_id)}", *commit, by],
        limit=limit,
        run_url=run_url,
        place=place,
    )


def _failed(receipt: Receipt, most: int) -> Iterator[str]:
    if receipt.is_complete and not receipt.interruption:
        return
    what = effect_words(receipt)
    yield f"> [!CAUTION]\n> **{what[0].upper()}{what[1:]}. Nothing is rolled back.**\n>\n"
    if receipt.interruption:
        yield f"> - Interrupted by {words(receipt.interruption[:_LONGEST])}.\n"
    for text, reasons in _failures(receipt):
        for message, addresses in list(reasons.items())[:_MOST_REASONS]:
            yield f"> - {_reason(text, message, addresses, most)}\n"
        if len(reasons) > _MOST_REASONS:
            yield f"> - and for {len(reasons) - _MOST_REASONS:,} more reasons, which are in the receipt\n"
    yield "\n"


def _reason(text: str, message: str, addresses: Sequence[str], most: int) -> str:
    why = f": {words(message[:_LONGEST])}" if message else ""
    if len(addresses) <= most:
        who = ", ".join(code(address, 100) for address in addresses)
    else:
        groups = by_prefix(addresses, most)
        who = ", ".join(f"{shown} ({len(some):,})" for shown, some in groups)
    return f"{counted(len(addresses), 'entity', 'entities')} {text}{why}: {who}"


def _changes(entities: ChangedEntities, make: Callable[[ChangedEntities], Iterable[str]]) -> Iterator[str]:
    if entities:
        yield f"<details><summary>Planned changes ({len(entities):,})</summary>\n\n"
        yield from make(entities)
        yield "</details>\n\n"


def render_receipt_total(outcomes: Sequence[ClusterOutcome[ReceiptDigest]], style: Style = PLAIN) -> str:
    """Return what was applied to all clusters together, and which are not as planned."""
    receipts = values_of(outcomes)
    complete = sum(receipt.is_complete for receipt in receipts)
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
    """Return what became of each entity, and what the plan said, for a page."""
    header = receipt.plan.header
    rows = tuple(
        (each.entity.address, each.action.value, each.result.value.replace("_", " "), inert(each.message or "-"))
        for each in sorted(receipt.results, key=lambda each: each.result.holds)
    )
    table = Table("Results", ("entity", "action", "result", "message"), rows)
    ended = [f"Interrupted by {receipt.interruption}."] if receipt.interruption else []
    return Report(
        title=f"Kafka quota apply to {spell_name(header.cluster_name)}",
        about=(
            resources_line([receipt.digest], is_complete=receipt.is_complete),
            f"Plan {receipt.plan.plan_id}, applied by {inert(receipt.applied_by)} at {receipt.started_at}",
            *ended,
        ),
        sections=(*([Section(table)] if rows else []), *change_sections(receipt.plan.changes)),
        nothing="There was nothing to apply.",
        notes=() if receipt.is_complete else (f"{effect_words(receipt).capitalize()}. Nothing is rolled back.",),
    )
