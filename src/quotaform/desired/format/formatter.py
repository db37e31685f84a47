"""Formats a file, or returns why it is left unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from re import compile as regex
from typing import Any, Final, TypeGuard

from quotaform.desired.format.tree import Comment, Item, Kind, Node, Tree, UnformattableError, read_tree
from quotaform.desired.format.writer import lay_out_root, write_tree
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import SMALL_RATE, parse_fitting
from quotaform.desired.yaml.document import Document, Oddity, UnclearError
from quotaform.desired.yaml.reader import Stream, read_document
from quotaform.model import rule
from quotaform.model.finding import Finding, Location
from quotaform.model.outcome import FormattedFile
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.units import UNLIMITED, parse_value, spell_value, unit_spellings

_MARK: Final = "\ufeff"
_WINDOWS_END: Final = "\r\n"


def format_source(source: SourceFile) -> FormattedFile:
    """Format a file; never raises, whatever it contains.

    The result declares the same and has the same comments. Its line ends are those of the first line.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return FormattedFile(name=source.name, before="", after="", problems=(text,))
    raw = source.text
    is_marked = raw.startswith(_MARK) if isinstance(raw, str) else raw.startswith(_MARK.encode())
    before = _MARK + text if is_marked else text
    lines = text.replace(_WINDOWS_END, "\n").replace("\r", "\n")
    content = read_content(source.name, lines)
    problems = content.problems
    formatted = None if problems else _format(lines)
    if formatted is not None and (formatted == lines or is_same(content, read_content(source.name, formatted))):
        first, end, _ = text.partition("\n")
        if end and first.endswith("\r"):
            formatted = formatted.replace("\n", _WINDOWS_END)
        return FormattedFile(name=source.name, before=before, after=formatted)
    if not problems:
        message = "this file cannot be formatted without changing what it declares, so it is left unchanged"
        problems = [rule.UNFORMATTABLE.finding(message, location=Location(source.name))]
    return FormattedFile(name=source.name, before=before, after=before, problems=tuple(problems))


def _format(text: str) -> str | None:
    """Return the formatted text; `None` if that is not possible."""
    try:
        tree = read_tree(text)
    except UnformattableError:
        return None
    arrange(tree)
    formatted, comments = write_tree(tree)
    return formatted if comments == tree.comments else None


_ENTRIES: Final = "quotas"


@dataclass(slots=True)
class Content:
    """The data of a file.

    Attributes:
        root: All but the entries.
        entries: The entries of `quotas`, in their order.
        odd: What another reader of YAML takes for something else, and how often.
        problems: What is wrong with it as YAML.
    """

    root: Any = None
    entries: list[Any] = field(default_factory=list)
    odd: Counter[tuple[str, Oddity]] = field(default_factory=Counter)
    problems: list[Finding] = field(default_factory=list)


def read_content(name: str, text: str) -> Content:
    """Read the content of a file; never raises, whatever it contains."""
    try:
        return _read(name, text, is_detailed=False)
    except UnclearError:
        return _read(name, text, is_detailed=True)


def _read(name: str, text: str, *, is_detailed: bool) -> Content:
    content = Content()

    def take(document: Document) -> None:
        root = document.root
        if isinstance(root, dict):
            content.entries += root[_ENTRIES]
        content.odd.update(_oddities(document))
        document.odd.clear()

    document = read_document(name, text, detailed=is_detailed, stream=Stream(_ENTRIES, take))
    content.root = document.root
    content.odd.update(_oddities(document))
    content.problems = document.problems
    return content


def _oddities(document: Document) -> list[tuple[str, Oddity]]:
    return [(key if isinstance(key, str) else "", oddity) for (_, key), oddity in document.odd.items()]


def is_same(one: Content, other: Content) -> bool:
    """Whether two files declare the same; the spelling of values and the order of keys may differ."""
    return (
        one.odd == other.odd
        and _is_same_node(one.root, other.root)
        and len(one.entries) == len(other.entries)
        and all(map(_is_same_node, one.entries, other.entries))
    )


def _is_same_node(one: Any, other: Any, key: str = "") -> bool:
    kind = type(one)
    if kind is not type(other):
        return _is_same_value(key, one, other)
    if kind is dict:
        return one.keys() == other.keys() and all(_is_same_node(node, other[name], name) for name, node in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(_is_same_node, one, other))
    return one == other or _is_same_value(key, one, other)


def _is_same_value(key: str, one: Any, other: Any) -> bool:
    try:
        return parse_fitting(key, one, ()) == parse_fitting(key, other, ())
    except (KeyError, ValueError, TypeError):
        return False


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
        for part in entry.items:
            node = part.value
            if node is not None and node.is_collection:
                if part.name == "match":
                    _make_flow(node)
                elif part.name == "values" and _is_mapping(node):
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


_PARTS: Final = regex(r"([0-9.]+) ?([A-Za-z/%]*)").fullmatch
_BYTES: Final = "B/s"
_BINARY: Final = "iB/s"


@lru_cache(maxsize=65536)
def respell(name: str, text: str) -> str:
    """Return a value of a quota key as files spell it; the text itself when it is none, or is spelled so already.

    >>> respell("producer_byte_rate", "1024 MiB/s"), respell("producer_byte_rate", "20MB/s")
    ('1GiB/s', '20MB/s')
    >>> respell("request_percentage", "150"), respell("request_percentage", "a lot")
    ('150%', 'a lot')
    """
    key = QUOTA_KEYS.get(name)
    if key is None:
        return text
    try:
        value = parse_value(key, text)
        spelled = _respell(key, text, value)
        return spelled if spelled is not None and parse_value(key, spelled) == value else text
    except ValueError:
        return text


def _respell(key: QuotaKey, text: str, value: float) -> str | None:
    shortest = spell_value(key, value)
    parts = _PARTS(text)
    if shortest is None or shortest == UNLIMITED or key.unit != _BYTES or parts is None:
        return shortest
    number, unit = parts[1], parts[2]
    if unit in {"", _BYTES}:
        # No unit was chosen: one that says more is. A bare number stays bare when there is none, and when it is so
        # small that a unit may be missing, of which a lint warns.
        if not unit and value < SMALL_RATE:
            return str(int(value))
        is_bare = not unit and shortest.removesuffix(_BYTES).isdigit()
        return shortest.removesuffix(_BYTES) if is_bare else shortest
    factors = {_factor(key, other): other for other in reversed(unit_spellings(key)) if _is_like(other, unit)}
    own = _factor(key, unit)
    larger = [factor for factor in factors if factor >= own and value % factor == 0]
    if larger:
        return f"{int(value) // max(larger)}{factors[max(larger)]}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{factors[own]}"


def _is_like(unit: str, other: str) -> bool:
    """Whether two units of bytes are of one family: powers of 1024, or powers of 1000."""
    return unit != _BYTES and unit.endswith(_BINARY) == other.endswith(_BINARY)


def _factor(key: QuotaKey, unit: str) -> int:
    return int(parse_value(key, f"1{unit}"))
