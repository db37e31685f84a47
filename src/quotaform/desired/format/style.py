"""The style of `quotaform fmt`: order of keys, spelling of values, line breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from re import compile as regex
from typing import Final, TypeGuard

from quotaform.desired.format.layout import lay_out_root
from quotaform.desired.format.node import Comment, Item, Kind, Node, Tree
from quotaform.desired.format.respell import respell
from quotaform.model.quota_key import key_order

_MERGE: Final = "<<"
_FIELDS: Final = {
    name: rank
    for rank, name in enumerate((_MERGE, "match", "profile", "values", "unset", "state", "expires", "owner", "reason"))
}
"""The fields of an entry in their order."""

_is_modeline: Final = regex(r"#\s*yaml-language-server:").match


def arrange(tree: Tree) -> None:
    """Format a tree without changing what it declares."""
    root = tree.root
    if root is None:
        return
    if _is_mapping(root):
        for item in root.items:
            if item.name == "quotas" and item.value is not None and item.value.kind is Kind.SEQUENCE:
                _arrange_entries(item.value, tree)
            elif item.name == "profiles" and _is_mapping(item.value):
                for profile in item.value.items:
                    if _is_mapping(profile.value):
                        _arrange_values(profile.value, tree)
    if root.items:
        _move_modeline(root.items[0].before)
    lay_out_root(root)


def _is_mapping(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.kind is Kind.MAPPING


def _arrange_entries(entries: Node, tree: Tree) -> None:
    entries.is_flow = False
    entries.is_spaced = True
    for item in entries.items:
        entry = item.value
        if not _is_mapping(entry):
            continue
        entry.is_flow = False
        _sort(entry, lambda name: (_FIELDS.get(name, len(_FIELDS)), ""), tree)
        for field in entry.items:
            node = field.value
            if node is not None and node.is_collection:
                if field.name == "match":
                    _make_flow(node)
                elif field.name == "values" and _is_mapping(node):
                    _arrange_values(node, tree)
        _close_up(entry)


def _arrange_values(values: Node, tree: Tree) -> None:
    """Sort the keys of values, and respell the values; one with an anchor may be something else elsewhere."""
    _sort(values, lambda name: (-1, "") if name == _MERGE else key_order(name), tree)
    for item in values.items:
        node = item.value
        if node is not None and node.kind is Kind.SCALAR and not node.props and "\n" not in node.raw and item.name:
            text = node.raw if node.is_plain else node.value
            spelled = respell(item.name, text)
            if spelled != text:
                node.raw, node.is_plain = spelled, True


def _sort(mapping: Node, rank: Callable[[str], tuple[int, str]], tree: Tree) -> None:
    """Sort the items of a mapping, unless that changed which anchor an alias means."""
    items = mapping.items
    ranks = [rank(item.name or "") for item in items]
    if all(first <= second for first, second in pairwise(ranks)):
        return
    ordered = [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]
    if not tree.has_anchors or list(_marks(ordered)) == list(_marks(items)):
        mapping.items = ordered


def _marks(items: list[Item]) -> Iterator[str]:
    """Yield the anchors and aliases of items, in their order."""
    for item in items:
        for node in (item.key, item.value):
            if node is not None:
                yield from node.props
                if node.kind is Kind.ALIAS:
                    yield node.raw
                yield from _marks(node.items)


def _make_flow(node: Node) -> None:
    node.is_flow = True
    for item in node.items:
        if item.value is not None and item.value.is_collection:
            _make_flow(item.value)


def _close_up(node: Node) -> None:
    """Leave out the empty lines between the fields of an entry."""
    for item in node.items:
        item.has_blank = False
        if item.value is not None and item.value.items:
            _close_up(item.value)


def _move_modeline(head: list[Comment]) -> None:
    """Put the line that tells editors where the schema is at the top of the file."""
    for place, comment in enumerate(head):
        if place and _is_modeline(comment.text):
            head.insert(0, Comment(head.pop(place).text))
            return
