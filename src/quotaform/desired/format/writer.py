"""Writes a tree of nodes and comments as YAML text: what is on one line, and where comments move."""

from __future__ import annotations

from re import compile as regex
from typing import Final

from quotaform.desired.format.tree import Comment, Item, Kind, Node, Tree
from quotaform.desired.writer import MOST_COLUMNS, spell_scalar
from quotaform.desired.yaml.document import is_text

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


_BLOCK_MARKS: Final = ("|", ">")


def write_tree(tree: Tree) -> tuple[str, int]:
    """Write a file that is laid out.

    Returns:
        Its text, of whole lines, and how many comments are in it.
    """
    writer = _Writer()
    for line in tree.head:
        writer.lines.append(line)
        writer.comments += line.startswith("#")
    if tree.has_start:
        writer.lines.append("---")
    root = tree.root
    if root is not None:
        if root.items:
            if root.props:
                writer.lines.append(with_props(root, ""))
            writer.write_items(root, 0)
        else:
            writer.write_comments(root.closing, "")
            writer.write_value("", Item(value=root), 0)
    writer.write_comments(tree.tail, "")
    return "".join([f"{line}\n" for line in writer.lines]), writer.comments


class _Writer:
    """Collects the lines of a file.

    Attributes:
        opens: Whether the last line opens a collection or the file: no empty line follows it.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.comments = 0
        self.opens = True

    def write_items(self, node: Node, indent: int, lead: str | None = None) -> None:
        """Write the items of a block collection.

        Args:
            lead: What stands before the first item in its line, if anything; the comments above it are written then.
        """
        pad = " " * indent
        is_mapping = node.kind is Kind.MAPPING
        for item in node.items:
            if lead is None:
                self.write_front(item, pad, is_spaced=node.is_spaced)
                start = pad
            else:
                start, lead = lead, None
            self.write_value(f"{start}{spell_key(item)}:" if is_mapping else f"{start}-", item, indent)
        self.write_comments(node.closing, pad)

    def write_front(self, item: Item, pad: str, *, is_spaced: bool) -> None:
        """Write what stands above an item: comments, and empty lines above and below them."""
        if is_spaced:
            self.write_blank()
        self.write_comments(item.before, pad)
        if item.has_blank and (item.before or not is_spaced):
            self.write_blank()

    def write_blank(self) -> None:
        if not self.opens and self.lines[-1]:
            self.lines.append("")

    def write_comments(self, comments: list[Comment], pad: str) -> None:
        for comment in comments:
            if comment.has_blank:
                self.write_blank()
            self.write(pad + comment.text)
            self.comments += 1

    def write(self, line: str) -> None:
        self.lines.append(line)
        self.opens = False

    def write_value(self, start: str, item: Item, indent: int) -> None:
        """Write an item.

        Args:
            start: What stands before the value in its line.
        """
        node = item.value
        trailing = ""
        if item.trailing:
            trailing = f"  {item.trailing[0].text}"
            self.comments += 1
        if node is None:
            self.write(start + trailing)
        elif node.is_collection and not node.is_flow:
            if item.key is None and not node.props:
                self.write_items(node, indent + INDENT, f"{start} ")
            else:
                self.write(" ".join((start, *node.props)) + trailing)
                self.opens = True
                self.write_items(node, indent + INDENT)
        else:
            self.write_inline(f"{start} " if start else "", node, trailing, indent + INDENT)

    def write_inline(self, start: str, node: Node, trailing: str, indent: int) -> None:
        """Write a value that begins on the line of its key; of a scalar of several lines the others are indented."""
        first, *rest = node.raw.split("\n")
        if node.is_collection:
            self.write(start + first + trailing)
            return
        if not first.startswith(_BLOCK_MARKS):
            pad = " " * indent
            self.write(start + with_props(node, first) + ("" if rest else trailing))
            for line in rest:
                self.write(pad + line.lstrip(" \t") if line.strip(" \t") else "")
            return
        mark = first.partition("#")[0]
        if "+" in mark or any(map(str.isdigit, mark)):
            # It depends on the lines after it, or on how far it is indented.
            self.write(start + with_props(node, spell_scalar(node.value)))
            return
        content = _content(rest)
        if content and "-" not in mark and not node.value.endswith("\n"):
            # The last line of the file, without an end; it gets one that does not count.
            first = f"{first[0]}-{first[1:]}"
        self.write(start + with_props(node, first.rstrip()))
        for line in content:
            self.write(" " * indent + line if line else "")


def _content(lines: list[str]) -> list[str]:
    """Return the lines of a block scalar without their indentation."""
    widest = max(map(len, lines), default=0)
    depth = next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" ")), widest)
    content = [line[depth:] for line in lines]
    while content and not content[-1]:
        content.pop()
    return content
