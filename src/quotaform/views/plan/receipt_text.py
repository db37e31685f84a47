"""What an apply did, as a person reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from quotaform.core.change import Action
from quotaform.core.digest import ReceiptDigest, digest_receipt
from quotaform.core.receipt import Receipt, Result
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style, counted

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


def _lines(receipt: Receipt, style: Style) -> Iterator[str]:
    yield from _done_lines(receipt)
    for result, words in result_words(receipt).items():
        reasons: dict[str, list[str]] = {}
        for item in receipt.results:
            if item.result is result:
                reasons.setdefault(item.message, []).append(item.entity.address)
        for message, addresses in reasons.items():
            why = f": {inert(message)}" if message else ""
            yield style.paint(f"{counted(len(addresses), 'entity', 'entities')} {words}{why}", "red")
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
        resources_line([digest_receipt(receipt)], is_complete=receipt.is_complete),
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
