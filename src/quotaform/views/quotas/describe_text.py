"""Quotas as a person reads them, and altered ones: entities by address, values in units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quotaform.core.result import Altered
from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile
from quotaform.model.units import render_value
from quotaform.views.reading_text import cluster_line, reading_text
from quotaform.views.style import PLAIN, Style, counted


def render_quotas_text(
    quotas: Quotas,
    style: Style = PLAIN,
    *,
    is_filtered: bool = False,
    heading: str | None = None,
    read_at: str = "",
    snapshot: SnapshotFile | None = None,
) -> str:
    """Return quotas, sorted by address.

    Args:
        is_filtered: Whether there may be more than these.
        heading: The name of the cluster, for a line above; without one there is none.
        snapshot: The snapshot that was read in its place.
    """
    head = f"{cluster_line(heading, style)}   {reading_text(read_at, snapshot)}\n\n" if heading else ""
    return head + "".join(f"{line}\n" for line in _lines(quotas, style, is_filtered))


def _lines(quotas: Quotas, style: Style, is_filtered: bool) -> Iterator[str]:
    if not quotas:
        yield "No entity matches." if is_filtered else "There are no quotas."
        return
    for address, values in sorted((entity.address, values) for entity, values in quotas.items()):
        yield style.paint(address, "bold")
        yield from value_lines(values)
    total = sum(map(len, quotas.values()))
    yield ""
    yield f"{counted(len(quotas), 'entity', 'entities')}, {counted(total, 'value')}.{_scope(quotas)}"


def _scope(quotas: Quotas) -> str:
    """Say where the limits hold, of those that are there."""
    found = {key.per for values in quotas.values() for name in values if (key := QUOTA_KEYS.get(name)) is not None}
    if not found:
        return ""
    if found == {"broker"}:
        return " Limits are per broker."
    per_cluster = ", ".join(name for name, key in QUOTA_KEYS.items() if key.per == "cluster")
    return f" Limits are per broker, {per_cluster} per cluster." if len(found) > 1 else " Limits are per cluster."


def value_lines(values: Mapping[str, float], notes: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a line per value, `  producer_byte_rate        10 MiB/s`, with a note behind some."""
    for name in sorted(values, key=key_order):
        note = f"   ({notes[name]})" if notes and name in notes else ""
        yield f"  {spell_name(name):<{_WIDTH}}  {render_value(QUOTA_KEYS.get(name), values[name])}{note}"


_WIDTH = max(map(len, QUOTA_KEYS))


def render_altered(done: Altered, style: Style = PLAIN, *, heading: str | None = None) -> str:
    """Return the entity as it is now, or would be, with what each changed key was before.

    `heading` is the name of the cluster, for a line above; without one there is none.
    """
    head = f"{cluster_line(heading, style)}\n\n" if heading else ""
    return head + "".join(f"{line}\n" for line in _altered_lines(done, style))


def _altered_lines(done: Altered, style: Style) -> Iterator[str]:
    would = done.is_validation
    changed = {key: _note(key, done.before.get(key)) for key in done.ops if done.has_changed(key)}
    if done.after:
        yield style.paint(done.entity.address, "bold")
        yield from value_lines(done.after, changed)
    else:
        yield f"{style.paint(done.entity.address, 'bold')} {'would have' if would else 'has'} no quotas."
    for key in sorted(changed.keys() - done.after.keys(), key=key_order):
        yield f"  {spell_name(key)} {'would be' if would else 'is'} removed   ({changed[key]})"
    yield ""
    if would:
        yield "The broker would accept this. Nothing was changed."
    elif changed:
        yield style.paint(f"Altered {done.entity.address}.", "green")
    else:
        yield f"No changes: {done.entity.address} already has these values."


def _note(key: str, value: float | None) -> str:
    return "was not set" if value is None else f"was {render_value(QUOTA_KEYS.get(key), value)}"
