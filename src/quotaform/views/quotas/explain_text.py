"""Where declared values come from, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.provenance import Explained, ExplainedKey, ExplainedText, Explanation, Giver, Step
from quotaform.model.entity import spell_name
from quotaform.model.entry import Cause
from quotaform.model.text import inert
from quotaform.views.plan.effect_text import value_text
from quotaform.views.style import PLAIN, Style

_COMMON = "common"
_GIVERS = {
    Giver.VALUES: "values",
    Giver.UNSET: "unset",
    Giver.TOMBSTONE: "state: absent",
    Giver.EXPIRED: "expired",
}
_REMOVED = "not set"


def render_explained(explained: Explained, style: Style = PLAIN) -> str:
    """Return an explanation as text: per key the value that holds, then every step, the deciding one marked."""
    sections = ("\n".join(_section(explanation, explained, style)) for explanation in explained.clusters)
    return "\n\n".join(sections) + "\n"


def _section(explanation: Explanation, explained: Explained, style: Style) -> Iterator[str]:
    source = f"Source {inert(explained.directory)}"
    if explanation.cluster is None:
        yield source
    else:
        yield f"Cluster  {style.paint(spell_name(explanation.cluster), 'bold')}   {source}"
    yield ""
    address = style.paint(explanation.entity.address, "bold")
    if explanation.cause is Cause.UNDECLARED:
        yield f"  {address} is not declared"
        return
    what = f" must not exist: {explanation.absent}" if explanation.absent else ""
    yield f"  {address}{what}   ({explanation.location})"
    for text in explanation.texts:
        yield f"    {_text_line(text)}"
    for key in explanation.keys:
        yield from _key_lines(key, style)


def _text_line(text: ExplainedText) -> str:
    replaced = ", replaced" if text.is_replaced else ""
    return f"{text.field} {inert(text.text)}   ({_layer(text.layer)}, {text.location}{replaced})"


def _key_lines(explained: ExplainedKey, style: Style) -> Iterator[str]:
    effective = f"= {value_text(explained.key, explained.value)}" if explained.value is not None else f"is {_REMOVED}"
    yield f"    {style.paint(f'{explained.key} {effective}', 'bold')}"
    rows = [_cells(explained.key, step) for step in explained.steps]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for number, (value, layer, giver, location) in enumerate(rows, start=1):
        mark = "*" if number == len(rows) else " "
        line = f"{mark} {value:<{widths[0]}}  {layer:<{widths[1]}}  {giver:<{widths[2]}}  {location}"
        yield f"      {line if number == len(rows) else style.paint(line, 'dim')}"


def _cells(key: str, step: Step) -> tuple[str, str, str, str]:
    giver = f"profile {inert(step.profile)}" if step.profile is not None else _GIVERS[step.giver]
    value = _REMOVED if step.value is None else value_text(key, step.value)
    return value, _layer(step.layer), giver, str(step.location)


def _layer(layer: str | None) -> str:
    return _COMMON if layer is None else spell_name(layer)
