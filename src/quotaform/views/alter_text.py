"""What was altered, as a person and as a machine reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Final, Protocol

from quotaform.core.document import json_number
from quotaform.document.describe import entry_document
from quotaform.model.entity import Entity, spell_name
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Values, same_value
from quotaform.model.units import render_value
from quotaform.views.describe_text import value_lines
from quotaform.views.style import PLAIN, Style

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.alter"


class Alteration(Protocol):
    """What this view needs to know of an alteration; see `quotaform.app.alter.Altered`."""

    @property
    def entity(self) -> Entity: ...
    @property
    def ops(self) -> Mapping[str, float | None]: ...
    @property
    def before(self) -> Values: ...
    @property
    def after(self) -> Values: ...
    @property
    def is_validation(self) -> bool: ...


def render_altered(done: Alteration, style: Style = PLAIN) -> str:
    """Return the entity as it is now, or would be, with what each changed key was before."""
    return "".join(f"{line}\n" for line in _lines(done, style))


def _lines(done: Alteration, style: Style) -> Iterator[str]:
    would = done.is_validation
    changed = {key: _note(key, done.before.get(key)) for key in done.ops if _is_changed(done, key)}
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
        yield f"No changes: {done.entity.address} was like this before."


def _is_changed(done: Alteration, key: str) -> bool:
    return not same_value(done.before.get(key), done.after.get(key))


def _note(key: str, value: float | None) -> str:
    return "was not set" if value is None else f"was {render_value(QUOTA_KEYS.get(key), value)}"


def render_altered_json(done: Alteration, *, cluster_name: str, cluster_id: str, read_at: str) -> str:
    """Return an alteration as JSON.

    Args:
        done: What was done.
        cluster_name: What the cluster is called.
        cluster_id: The id that it gave itself.
        read_at: When the values were read, as ISO 8601 in UTC.
    """
    document = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "cluster": {"name": cluster_name, "id": cluster_id},
        "read_at": read_at,
        "validate_only": done.is_validation,
        **entry_document(done.entity, done.after),
        "changes": [
            {"key": key, "before": json_number(done.before.get(key)), "after": json_number(done.after.get(key))}
            for key in sorted(done.ops, key=key_order)
            if _is_changed(done, key)
        ],
    }
    return dumps(document, indent=2, allow_nan=False) + "\n"
