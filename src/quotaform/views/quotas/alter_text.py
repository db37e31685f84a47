"""Altered quotas as text."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.result import Altered
from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.units import render_value
from quotaform.views.quotas.describe_text import value_lines
from quotaform.views.reading_text import cluster_line
from quotaform.views.style import PLAIN, Style


def render_altered(done: Altered, style: Style = PLAIN, *, heading: str | None = None) -> str:
    """Return the entity as it is now, or would be, with what each changed key was before.

    `heading` is the name of the cluster, for a line above; without one there is none.
    """
    head = f"{cluster_line(heading, style)}\n\n" if heading else ""
    return head + "".join(f"{line}\n" for line in _lines(done, style))


def _lines(done: Altered, style: Style) -> Iterator[str]:
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
