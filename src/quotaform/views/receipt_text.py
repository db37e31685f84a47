"""What an apply did, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.plan import Action
from quotaform.core.receipt import Receipt, Result
from quotaform.model.text import inert
from quotaform.views.style import PLAIN, Style

_WORDS = {
    Result.REFUSED: "refused by the broker",
    Result.UNCONFIRMED: "accepted, and not seen on the cluster in time",
    Result.UNKNOWN: "outcome unknown: it may be there, now or within a minute",
    Result.NOT_ATTEMPTED: "not attempted",
}
_SHOWN = 20


def render_receipt(receipt: Receipt, style: Style = PLAIN) -> str:
    """Return what failed, entity by entity, and the last line in Terraform's words."""
    return "\n".join(_lines(receipt, style)) + "\n"


def _lines(receipt: Receipt, style: Style) -> Iterator[str]:
    for result, words in _WORDS.items():
        items = [item for item in receipt.results if item.result is result]
        for item in items[:_SHOWN]:
            message = f": {inert(item.message)}" if item.message else ""
            yield style.paint(f"  {item.entity.address} {words}{message}", "red")
        if len(items) > _SHOWN:
            yield style.paint(f"  ... and {len(items) - _SHOWN} more {words}", "red")
    if receipt.interrupted_by:
        yield f"Interrupted by {receipt.interrupted_by}."
    done = (
        f"{receipt.count(Action.CREATE)} added, {receipt.count(Action.UPDATE)} changed, "
        f"{receipt.count(Action.DELETE)} destroyed."
    )
    already = receipt.tally.get(Result.ALREADY_APPLIED, 0)
    if already:
        done = f"{done[:-1]} ({already} already there)."
    if receipt.is_complete:
        yield style.paint(f"Apply complete! Resources: {done}", "green")
        return
    yield "Nothing is rolled back. Run quotaform plan to see what is left."
    tally = receipt.tally
    failed = tally.get(Result.REFUSED, 0) + tally.get(Result.UNCONFIRMED, 0)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{tally[Result.UNKNOWN]} unknown"] if tally.get(Result.UNKNOWN) else []
    parts += [f"{tally[Result.NOT_ATTEMPTED]} not attempted"] if tally.get(Result.NOT_ATTEMPTED) else []
    yield style.paint(f"Apply incomplete! Resources: {done[:-1]}; {', '.join(parts)}.", "red")
