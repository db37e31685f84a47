"""Brings YAML files into one style: `quotaform fmt`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import dropwhile, pairwise
from re import compile as regex
from typing import Any, Final

import yaml
from msgspec import Struct
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import SMALL_RATE
from quotaform.desired.yaml.document import YamlList, YamlMapping, is_text, spot_of
from quotaform.desired.yaml.nodes import ALIAS, NodeFile, find_comments, notes, read_nodes, walk, write_nodes
from quotaform.desired.yaml.reader import MERGE_KEY, read_document
from quotaform.model import rule
from quotaform.model.errors import ExitCode
from quotaform.model.finding import Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.units import UNLIMITED, parse_value, spell_value, unit_spellings

_MARK: Final = "\ufeff"


def unix_lines(text: str) -> tuple[str, str]:
    """Return a text with `\\n` as line ends, and how its lines end: as the first one does."""
    first, end, _ = text.partition("\n")
    line_end = "\r\n" if end and first.endswith("\r") else "\n"
    return text.replace("\r\n", "\n").replace("\r", "\n"), line_end


class FormattedFile(Struct, frozen=True, kw_only=True):
    """What became of a file that was to be formatted."""

    name: str  # the file in messages
    before: str  # its text, with a byte order mark if there is one
    after: str  # its text when it is formatted; the same as before when there are problems
    problems: tuple[Finding, ...] = ()  # why it stays as it is

    @property
    def is_changed(self) -> bool:
        """Whether formatting makes a difference."""
        return self.before != self.after

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that formats it, and writes nothing."""
        if self.problems:
            return ExitCode.INVALID
        return ExitCode.DIFFERENCES if self.is_changed else ExitCode.DONE


def format_source(source: SourceFile) -> FormattedFile:
    """Format a file; never raises, whatever it contains.

    The result declares the same and has the same comments. Its line ends are those of the first line.
    """
    decoded = decode(source)
    if isinstance(decoded, Finding):
        return FormattedFile(name=source.name, before="", after="", problems=(decoded,))
    raw = source.text
    is_marked = raw.startswith(_MARK) if isinstance(raw, str) else raw.startswith(_MARK.encode())
    before = _MARK + decoded if is_marked else decoded
    text, line_end = unix_lines(decoded)
    content = read_document(source.name, text, most_values=_MOST_VALUES)
    problems = content.findings.all()
    formatted = None if problems else _format(text)
    if formatted is not None and formatted != text:
        other = read_document(source.name, formatted, most_values=_MOST_VALUES)
        if other.errors or not _is_same(content.root, other.root):
            formatted = None
    if formatted is not None:
        return FormattedFile(name=source.name, before=before, after=formatted.replace("\n", line_end))
    if not problems:
        message = "this file cannot be formatted without changing what it declares, so it is left unchanged"
        problems = [rule.UNFORMATTABLE.finding(message, location=Location(source.name))]
    return FormattedFile(name=source.name, before=before, after=before, problems=tuple(problems))


def _format(text: str) -> str | None:
    """Return the formatted text; `None` if that is not possible."""
    try:
        file = read_nodes(text)
        arrange(file)
        formatted = write_nodes(file)
        return formatted if find_comments(formatted) == find_comments(text) else None
    except (YAMLError, yaml.YAMLError):
        return None


_MOST_VALUES: Final = 1 << 30
"""Only the size of a file limits what is formatted."""


def _is_same(one: Any, other: Any, key: Any = None) -> bool:
    """Whether two values at a key declare the same; the spelling of values and the order of keys may differ."""
    if type(one) is type(other) and type(one) in {YamlMapping, YamlList}:
        keys = one.keys() if isinstance(one, YamlMapping) else range(len(one))
        others = other.keys() if isinstance(other, YamlMapping) else range(len(other))
        return keys == others and all(
            spot_of(one, each)[3] is spot_of(other, each)[3] and _is_same(one[each], other[each], each) for each in keys
        )
    if type(one) is type(other) and one == other:
        return True
    try:
        return parse_value(QUOTA_KEYS[key], str(one)) == parse_value(QUOTA_KEYS[key], str(other))
    except (KeyError, ValueError):
        return False


_FIELDS: Final = (MERGE_KEY, "match", "profile", "values", "unset", "state", "expires", "owner", "reason")
"""The fields of an entry in their order."""
_is_modeline: Final = regex(r"#\s*yaml-language-server:").match
"""The line that tells editors where the schema is."""


def arrange(file: NodeFile) -> None:
    """Bring the content of a file into its order and style, without changing what it declares."""
    if not isinstance(file.root, MappingNode) or not file.root.value:
        return
    for key, value in file.root.value:
        if key.value == "quotas" and isinstance(value, SequenceNode):
            _arrange_entries(value)
        elif key.value == "profiles" and isinstance(value, MappingNode):
            for _, profile in value.value:
                _arrange_values(profile)
    head = notes(file.root.value[0][0]).before
    place = next((place for place, line in enumerate(head) if _is_modeline(line)), 0)
    if place:
        head[:] = [head[place], "", *head[:place], *head[place + 1 :]]


def _arrange_entries(entries: SequenceNode) -> None:
    entries.flow_style = not entries.value
    for place, entry in enumerate(entries.value):
        above = [] if entry.comment is None else entry.comment.before
        if place and above[:1] != [""]:
            notes(entry).before = ["", *above]
        if not isinstance(entry, MappingNode):
            continue
        entry.flow_style = not entry.value
        _sort(entry, lambda name: (_FIELDS.index(name) if name in _FIELDS else len(_FIELDS), ""))
        for key, value in entry.value:
            if key.value == "match" and isinstance(value, CollectionNode):
                _make_flow(value)
            elif key.value == "values":
                _arrange_values(value)
        for part in walk(entry):
            while part is not entry and part.comment and part.comment.before and not part.comment.before[-1]:
                del part.comment.before[-1]


def _arrange_values(values: Node) -> None:
    """Sort the keys of values, and respell the values; one with an anchor may be something else elsewhere."""
    if not isinstance(values, MappingNode):
        return
    _sort(values, lambda name: (-1, "") if name == MERGE_KEY else key_order(name))
    for key, value in values.value:
        if isinstance(value, ScalarNode) and not value.anchor and value.style != ALIAS and "\n" not in value.value:
            spelled = respell(key.value, value.value)
            if spelled != value.value:
                value.value, value.style = spelled, None


def _sort(mapping: MappingNode, rank: Callable[[str], tuple[int, str]]) -> None:
    """Sort the keys of a mapping, unless that changed which anchor an alias means."""
    ranks = [rank(key.value if isinstance(key, ScalarNode) else "") for key, _ in mapping.value]
    if all(first <= second for first, second in pairwise(ranks)):
        return
    before, marks = mapping.value, _marks(mapping)
    mapping.value = [before[place] for place in sorted(range(len(before)), key=ranks.__getitem__)]
    if marks and _marks(mapping) != marks:
        mapping.value = before
    if first := mapping.value[0][0].comment:
        first.before = list(dropwhile(lambda line: not line, first.before))


def _marks(node: Node) -> list[str]:
    """Return the anchors and aliases in a node, in their order."""
    return [part.anchor or part.value for part in walk(node) if part.anchor or getattr(part, "style", None) == ALIAS]


def _make_flow(node: CollectionNode) -> None:
    """Write a collection in braces if it has no comments."""
    parts = list(walk(node))
    if any(part.comment and part.comment.has_text for part in parts):
        return
    for part in parts:
        part.comment = None
        if isinstance(part, CollectionNode):
            part.flow_style = True
        elif isinstance(part, ScalarNode) and part.value and not part.style:
            # In braces, some characters need quotes.
            part.style = '"' if is_text(part.value) and not _is_plain_in_flow(part.value) else part.style


_is_plain_in_flow: Final = regex(r"[A-Za-z0-9_.<][A-Za-z0-9_.@/=+%<> -]*").fullmatch
_PARTS: Final = regex(r"([0-9.]+) ?([A-Za-z/%]*)").fullmatch


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
    if shortest is None or shortest == UNLIMITED or key.unit != "B/s" or parts is None:
        return shortest
    number, unit = parts[1], parts[2]
    if not unit and value < SMALL_RATE:
        return str(int(value))  # It stays bare: a unit may be missing, of which a lint warns.
    if unit in {"", "B/s"}:
        # No unit was chosen: one that says more is. A bare number stays bare when there is none.
        bare = shortest.removesuffix("B/s")
        return bare if not unit and bare.isdigit() else shortest
    # Units of its family, powers of 1024 or powers of 1000, by their size.
    is_binary = unit.endswith("iB/s")
    family = [each for each in unit_spellings(key) if each != "B/s" and each.endswith("iB/s") == is_binary]
    sizes = {int(parse_value(key, f"1{each}")): each for each in reversed(family)}
    own = int(parse_value(key, f"1{unit}"))
    largest = max((size for size in sizes if size >= own and value % size == 0), default=None)
    if largest is not None:
        return f"{int(value) // largest}{sizes[largest]}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{sizes[own]}"
