"""Drift as a comment or a job summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from quotaform.core.base import Base
from quotaform.core.change import Change
from quotaform.core.drift.drift import Drift
from quotaform.core.drift.drifted import DriftClass, DriftedEntity
from quotaform.model.entity import Entity, spell_name
from quotaform.model.text import inert
from quotaform.views.address_group import by_prefix
from quotaform.views.drift.drift_text import drift_line
from quotaform.views.finding.finding_markdown import block_lines, note_items, note_lines
from quotaform.views.finding.problem import Place, unchanged_place
from quotaform.views.markdown import code, code_cell, link, table, words, words_cell
from quotaform.views.markdown_fit import COMMENT_BYTES, Part, fit, form
from quotaform.views.plan.effect_text import value_text
from quotaform.views.plan.plan_markdown import comment_marker
from quotaform.views.reading_text import reading_text
from quotaform.views.style import counted

MARKER: Final = "drift"
_MOST_NOTES: Final = 50
_NOT_COMPARED: Final = "Not compared:"
_HEADER: Final = ("", "Entity", "Quota", "On the cluster", "In the files", "Owner")
_HISTORY_HEADER: Final = ("", "Entity", "Quota", "On the cluster", "In the history", "Owner")
_BASED_HEADER: Final = ("", "Entity", "Quota", "On the cluster", "Agreed", "In the files", "Owner")


def render_drift_markdown(
    drift: Drift,
    *,
    limit: int = COMMENT_BYTES,
    root: str = "quotas.d",
    run_url: str | None = None,
    place: Place = unchanged_place,
) -> str:
    """Return drift as Markdown that no name in it can break out of.

    `limit` is how many bytes the document may have; what has no room is counted.
    """
    by_class = [each for drift_class in DriftClass for each in drift.entities if each.drift_class is drift_class]
    pending = [(each.entity, each.action.value, each.owner, each.changes) for each in drift.pending]
    ignored = [(each.drifted.entity, each.ignore.reason, None, each.drifted.changes) for each in drift.ignored]
    blocking = [finding for finding in drift.findings if finding.blocking]
    others = [finding for finding in drift.findings if not finding.blocking]
    entities = Part(
        [form(_drifted_table, by_class, drift.baseline), form(_counted, [each.entity for each in by_class])]
    )
    folded = [
        Part([form(_folded, title, rows, _other_table), form(_folded, title, rows, _other_counts)])
        for title, rows in (
            ("Pending: in the files and not applied yet", pending),
            ("Ignored by drift_ignore", ignored),
        )
    ]
    blocks = Part([form(block_lines, blocking, most, _NOT_COMPARED) for most in (_MOST_NOTES, 0)])
    notes = Part([form(note_lines, note_items(others), most) for most in (_MOST_NOTES, 0)])
    head, foot = Part([form(_head, drift, root, place)]), Part([form(_foot, drift, run_url)])
    return fit((head, blocks, entities, *folded, notes, foot), (*reversed(folded), notes, entities, blocks), limit)


def _head(drift: Drift, root: str, place: Place) -> Iterator[str]:
    changes = len(drift.entities) if drift.is_known else None
    yield f"{comment_marker(MARKER, drift.cluster_name, root, place, changes)}\n"
    if not drift.is_known:
        what = "unknown"
    elif drift.entities:
        what = ", ".join(f"{drift.summary[each.value]:,} {each.value}" for each in DriftClass)
    else:
        what = "no drift"
    yield f"### Kafka quota drift on {code(spell_name(drift.cluster_name), 100)}: {what}\n\n"
    yield f"{drift_line(drift) if drift.is_known else 'This is not the cluster that the files are for.'}\n\n"


def _drifted_table(entities: Sequence[DriftedEntity], baseline: Base | None) -> Iterator[str]:
    if entities:
        has_baseline = baseline is not None and not baseline.is_history
        header = _HEADER if baseline is None else _HISTORY_HEADER if baseline.is_history else _BASED_HEADER
        rows = (cells for each in entities for cells in _drifted_rows(each, has_baseline))
        yield from table(header, rows)
        yield "\n"


def _drifted_rows(drifted: DriftedEntity, has_baseline: bool) -> Iterator[Sequence[str]]:
    """Yield a row for each key; what was agreed is what the files say when there is no baseline."""
    first = drifted.drift_class.value, code_cell(drifted.entity.address)
    owner = words_cell(drifted.owner) if drifted.owner else ""
    for change in drifted.changes:
        declared = _value(change, change.after)
        if change.after is None and drifted.absent is not None:
            declared = words_cell(inert(drifted.absent))
        yield (
            *first,
            code_cell(spell_name(change.key)),
            _value(change, change.before),
            *((_value(change, drifted.agreed(change)),) if has_baseline else ()),
            declared,
            owner,
        )
        first, owner = ("", ""), ""


def _value(change: Change, value: float | None) -> str:
    return "not set" if value is None else words_cell(value_text(change.key, value))


Others = Sequence[tuple[Entity, str, str | None, Sequence[Change]]]
"""Entities, each with a word about it, its owner and its keys that differ from the files."""


def _folded(title: str, rows: Others, make: Callable[[Others], Iterable[str]]) -> Iterator[str]:
    if rows:
        yield f"<details><summary>{title} ({len(rows):,})</summary>\n\n"
        yield from make(rows)
        yield "</details>\n\n"


def _other_table(rows: Others) -> Iterator[str]:
    cells = (
        (
            words_cell(word),
            code_cell(entity.address),
            code_cell(spell_name(change.key)),
            _value(change, change.before),
            _value(change, change.after),
            words_cell(owner) if owner else "",
        )
        for entity, word, owner, changes in rows
        for change in changes
    )
    yield from table(("", "Entity", "Quota", "On the cluster", "In the files", "Owner"), cells)
    yield "\n"


def _other_counts(rows: Others) -> Iterator[str]:
    return _counted([entity for entity, *_ in rows])


def _counted(entities: Sequence[Entity]) -> Iterator[str]:
    if entities:
        groups = by_prefix([entity.address for entity in entities])
        yield from table(("Entities", "Number"), ((shown, f"{len(some):,}") for shown, some in groups))
        yield "\nThis is too much for one document: see the output of `quotaform drift`.\n\n"


def _foot(drift: Drift, run_url: str | None) -> Iterator[str]:
    parts = [f"Fingerprint {code(drift.fingerprint)}"]
    base = drift.baseline
    if base is not None:
        commit = f" at {code(base.commit[:7])}" if base.commit else ""
        parts.append(f"baseline {'' if base.type == 'git' else f'{base.type} '}{code(base.ref, 100)}{commit}")
    parts.append(words(reading_text(drift.read_at, drift.snapshot)))
    parts.append(f"{counted(drift.in_sync, 'entity', 'entities')} in sync")
    run = link("run", run_url)
    if run is not None:
        parts.append(run)
    yield f"<sub>{' · '.join(parts)}</sub>\n"
