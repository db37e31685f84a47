"""Writes a tree of nodes and comments as YAML text."""

from __future__ import annotations

from typing import Final

from quotaform.desired.format.layout import INDENT, spell_key, with_props
from quotaform.desired.format.node import Comment, Item, Kind, Node, Tree
from quotaform.desired.writer import spell_scalar

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
