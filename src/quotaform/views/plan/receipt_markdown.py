"""What an apply did, as a comment that takes the place of the one about its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from quotaform.core.change import Action
from quotaform.core.digest import digest_receipt
from quotaform.core.receipt import Receipt
from quotaform.model.entity import spell_name
from quotaform.views.address_group import by_prefix
from quotaform.views.finding.problem import Place, unchanged_place
from quotaform.views.markdown import code, link, words
from quotaform.views.markdown_fit import COMMENT_BYTES, Part, fit, form
from quotaform.views.plan.change_part import Parts, Rows, parts_of
from quotaform.views.plan.change_table import counted_table, full_table, grouped_table
from quotaform.views.plan.plan_markdown import MARKER, comment_marker
from quotaform.views.plan.receipt_text import effect_words, resources_line, result_words
from quotaform.views.style import counted

_MOST_REASONS: Final = 10
_LONGEST: Final = 400


def render_receipt_markdown(
    receipt: Receipt, *, limit: int = COMMENT_BYTES, run_url: str | None = None, place: Place = unchanged_place
) -> str:
    """Return what an apply did as Markdown that no name in it can break out of.

    `limit` is how many bytes the document may have; what has no room is grouped or counted.
    """
    rows = _rows(parts_of(receipt.plan.changes))
    failed = Part([form(_failed, receipt, 50), form(_failed, receipt, 5)])
    changes = Part([form(_changes, rows, make) for make in (full_table, grouped_table, counted_table)])
    head, foot = Part([form(_head, receipt, place)]), Part([form(_foot, receipt, run_url)])
    return fit((head, failed, changes, foot), (changes, changes, failed), limit)


def _rows(parts: Parts) -> Rows:
    return [*parts.deletes, *parts.updates, *parts.creates, *parts.drift]


def _head(receipt: Receipt, place: Place) -> Iterator[str]:
    header = receipt.plan.header
    changes = None if receipt.interruption else len(receipt.results)
    yield f"{comment_marker(MARKER, header.cluster_name, header.source.directory, place, changes)}\n"
    added, changed, destroyed = (receipt.count(each) for each in (Action.CREATE, Action.UPDATE, Action.DELETE))
    if not receipt.results:
        what = "no changes"
    elif receipt.is_complete:
        what = f"applied ({added} added, {changed} changed, {destroyed} destroyed)"
    else:
        what = "partly applied" if receipt.wrote_anything else "not applied"
    yield f"### Kafka quota plan for {code(spell_name(header.cluster_name), 100)}: {what}\n\n"
    yield f"{resources_line([digest_receipt(receipt)], is_complete=receipt.is_complete)}\n\n"


def _failed(receipt: Receipt, most: int) -> Iterator[str]:
    if receipt.is_complete and not receipt.interruption:
        return
    what = effect_words(receipt)
    yield f"> [!CAUTION]\n> **{what[0].upper()}{what[1:]}. Nothing is rolled back.**\n>\n"
    if receipt.interruption:
        yield f"> - Interrupted by {words(receipt.interruption[:_LONGEST])}.\n"
    for result, text in result_words(receipt).items():
        reasons: dict[str, list[str]] = {}
        for item in receipt.results:
            if item.result is result:
                reasons.setdefault(item.message, []).append(item.entity.address)
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


def _changes(entities: Rows, make: Callable[[Rows], Iterable[str]]) -> Iterator[str]:
    if entities:
        yield f"<details><summary>Planned changes ({len(entities):,})</summary>\n\n"
        yield from make(entities)
        yield "</details>\n\n"


def _foot(receipt: Receipt, run_url: str | None) -> Iterator[str]:
    source = receipt.plan.header.source
    parts = [f"Plan id {code(receipt.plan.plan_id)}"]
    if source.commit:
        parts.append(f"commit {code(source.commit[:7])}")
    parts.append(f"applied by {code(receipt.applied_by, 100)} at {code(receipt.finished_at, 40)}")
    run = link("run", run_url)
    if run is not None:
        parts.append(run)
    yield f"<sub>{' · '.join(parts)}</sub>\n"
