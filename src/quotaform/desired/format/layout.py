"""Which nodes are on one line, and where comments move."""

from __future__ import annotations

from re import compile as regex
from typing import Final

from quotaform.desired.format.node import Comment, Item, Kind, Node
from quotaform.desired.writer import MOST_COLUMNS, spell_scalar
from quotaform.desired.yaml.scalar import is_text

INDENT: Final = 2
"""How far a collection is indented in the one that holds it."""

_is_plain_in_flow: Final = regex(r"[A-Za-z0-9_.<][A-Za-z0-9_.@/=+%<> -]*").fullmatch


def lay_out_root(root: Node) -> None:
    """Lay out a file, whose outermost collection is never in braces unless it is empty; see `lay_out`."""
    if root.items:
        root.is_flow = False
        lay_out(root, 0)
    elif root.is_collection:
        root.is_flow = True
        root.raw = with_props(root, _braces(root, ""))


def lay_out(node: Node, indent: int) -> None:
    """Decide for each collection in a block collection whether it is written as `[]` or `{}`, which `raw` then holds.

    Each item has at most one comment at the end of a line afterwards. The comments above the first key of an item go
    above its `-`, which is on the same line.
    """
    is_mapping = node.kind is Kind.MAPPING
    for item in node.items:
        value = item.value
        if value is None:
            is_long = False
        elif not value.is_collection:
            is_long = "\n" in value.raw
        else:
            is_long = _lay_out_collection(item, value, indent, len(spell_key(item)) if is_mapping else 0)
        if item.trailing and (is_long or len(item.trailing) > 1):
            item.before += _as_lines(item.trailing)
            item.trailing = []


def _lay_out_collection(item: Item, value: Node, indent: int, width: int) -> bool:
    """Lay out a collection and what is in it, and return whether its first line takes no comment."""
    if not value.items:
        item.before += value.closing
        value.closing = []
        value.is_flow = True
    if value.is_flow:
        text = flow_text(value, MOST_COLUMNS - indent - width - INDENT)
        if text is not None:
            value.raw = text
            return False
        value.is_flow = False
    lay_out(value, indent + INDENT)
    if width or value.props:
        return False
    first = value.items[0]
    item.before += [*_as_lines(item.trailing), *first.before]
    item.trailing, first.before = [], []
    return False


def _as_lines(comments: list[Comment]) -> list[Comment]:
    return [Comment(comment.text) for comment in comments]


def flow_text(node: Node, room: int) -> str | None:
    """Return a collection in `[]` or `{}`; `None` when it has more characters than there is room, or cannot be."""
    if node.closing:
        return None
    parts: list[str] = []
    left = room
    for item in node.items:
        value = item.value
        if item.before or item.trailing or value is None:
            return None
        text = flow_text(value, left) if value.is_collection else _scalar_in_flow(value)
        if text is None:
            return None
        parts.append(text if item.key is None else f"{spell_key(item)}: {text}")
        left -= len(parts[-1])
        if left < 0:  # so that a large collection is not gone through once for each that it is in
            return None
    text = with_props(node, _braces(node, ", ".join(parts)))
    return text if len(text) <= room or not node.items else None


def _braces(node: Node, inner: str) -> str:
    return f"{{{inner}}}" if node.kind is Kind.MAPPING else f"[{inner}]"


def _scalar_in_flow(node: Node) -> str | None:
    """Return a scalar or an alias as it is written in a flow collection, where `,` and brackets must be quoted."""
    raw = node.raw
    if "\n" in raw:
        return None
    if node.is_plain and not node.in_flow and not _is_plain_in_flow(raw) and is_text(raw):
        raw = spell_scalar(node.value)
    return with_props(node, raw)


def with_props(node: Node, text: str) -> str:
    """Return a value with its anchor and its tag before it."""
    return " ".join((*node.props, text)).rstrip() if node.props else text


def spell_key(item: Item) -> str:
    """Return the key of an item as it is written before a colon."""
    key = item.key
    if key is None:
        return ""
    raw = spell_scalar(key.value) if "\n" in key.raw else key.raw
    return with_props(key, raw) if key.kind is not Kind.ALIAS else f"{raw} "
