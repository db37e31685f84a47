"""What an apply did, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quotaform.core.plan import Action
from quotaform.core.receipt import Receipt, Result
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style, counted

_WORDS = {
    Result.REFUSED: "refused by the broker",
    Result.UNCONFIRMED: "accepted, and not seen on the cluster in time",
    Result.OVERWRITTEN: "accepted, and changed by somebody else since",
    Result.UNKNOWN: "of unknown outcome (the change may be there, now or within a minute)",
    Result.NOT_ATTEMPTED: "not attempted",
}
_SUMMARY = {
    Result.REFUSED: "failed",
    Result.UNCONFIRMED: "unconfirmed",
    Result.OVERWRITTEN: "overwritten",
    Result.UNKNOWN: "unknown",
    Result.NOT_ATTEMPTED: "not attempted",
}
_SHOWN = 10


def render_receipt(receipt: Receipt, style: Style = PLAIN) -> str:
    """Return what failed, by reason, and the last line in Terraform's words."""
    return "\n".join(_lines(receipt, style)) + "\n"


def _lines(receipt: Receipt, style: Style) -> Iterator[str]:
    for result, words in _WORDS.items():
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
    counts = {action: receipt.count(action) for action in Action}
    tally = receipt.tally
    already = f" ({tally[Result.ALREADY_APPLIED]} already there)" if tally.get(Result.ALREADY_APPLIED) else ""
    if receipt.is_complete:
        yield style.paint(resources_line(counts, is_complete=True, more=already), "green")
        return
    yield "Nothing is rolled back. Run quotaform plan to see what is left."
    parts = [f"{tally[result]} {word}" for result, word in _SUMMARY.items() if tally.get(result)]
    yield style.paint(resources_line(counts, is_complete=False, more=f"{already}; {', '.join(parts)}"), "red")


def resources_line(counts: Mapping[Action, int], *, is_complete: bool, more: str = "") -> str:
    """Return how many entities were created, updated and deleted, in Terraform's words."""
    return (
        f"Apply {'complete' if is_complete else 'incomplete'}! Resources: {counts[Action.CREATE]} added, "
        f"{counts[Action.UPDATE]} changed, {counts[Action.DELETE]} destroyed{more}."
    )
