"""Brings YAML files into one style: `quotaform fmt`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import dropwhile, pairwise
from re import compile as regex
from typing import Any, Final, NamedTuple

import yaml
from msgspec import Struct
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import SMALL_RATE
from quotaform.desired.yaml.document import Document, YamlList, YamlMapping, is_text, spot_of
from quotaform.desired.yaml.nodes import ALIAS, NodeFile, find_comments, notes, read_nodes, walk, write_nodes
from quotaform.desired.yaml.reader import MERGE_KEY, read_document
from quotaform.model import rule
from quotaform.model.errors import ExitCode
from quotaform.model.finding import Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, key_order
from quotaform.model.units import UNLIMITED, parse_value, spell_value, unit_spellings

_MARK: Final = "\ufeff"
_WINDOWS_END: Final = "\r\n"


class FileText(NamedTuple):
    """The text of a file with `\\n` as line ends, and how its lines end in the file."""

    lines: str
    line_end: str

    @classmethod
    def of(cls, text: str) -> FileText:
        """Take a text apart. The first line decides how all of them end."""
        first, end, _ = text.partition("\n")
        line_end = _WINDOWS_END if end and first.endswith("\r") else "\n"
        return cls(text.replace(_WINDOWS_END, "\n").replace("\r", "\n"), line_end)

    def with_lines(self, lines: str) -> str:
        """Return other lines with the ends of these."""
        return lines.replace("\n", self.line_end)


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
    text = FileText.of(decoded)
    content = read_document(source.name, text.lines, most_values=_MOST_VALUES)
    problems = content.findings.all()
    formatted = None if problems else _format(text.lines)
    if formatted is not None and (formatted == text.lines or _is_same(content, formatted)):
        return FormattedFile(name=source.name, before=before, after=text.with_lines(formatted))
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


def _is_same(content: Document, formatted: str) -> bool:
    """Whether a text declares the same as a file; the spelling of values and the order of keys may differ."""
    other = read_document(content.name, formatted, most_values=_MOST_VALUES)
    return not other.errors and _is_same_node(content.root, other.root)


def _is_same_node(one: Any, other: Any) -> bool:
    if isinstance(one, YamlMapping) and isinstance(other, YamlMapping):
        return one.keys() == other.keys() and all(_is_same_item(one, other, key) for key in one)
    if isinstance(one, YamlList) and isinstance(other, YamlList):
        return len(one) == len(other) and all(_is_same_item(one, other, index) for index in range(len(one)))
    return type(one) is type(other) and bool(one == other)


def _is_same_item(one: Any, other: Any, key: Any) -> bool:
    if spot_of(one, key)[3] is not spot_of(other, key)[3]:
        return False
    return _is_same_node(one[key], other[key]) or _is_same_value(key, one[key], other[key])


def _is_same_value(key: str, one: Any, other: Any) -> bool:
    try:
        return parse_value(QUOTA_KEYS[key], str(one)) == parse_value(QUOTA_KEYS[key], str(other))
    except (KeyError, ValueError):
        return False


_FIELDS: Final = {
    name: rank
    for rank, name in enumerate(
        (MERGE_KEY, "match", "profile", "values", "unset", "state", "expires", "owner", "reason")
    )
}
"""The fields of an entry in their order."""
_is_modeline: Final = regex(r"#\s*yaml-language-server:").match


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
    for place, line in enumerate(head):
        # The line that tells editors where the schema is.
        if _is_modeline(line):
            head[:] = [line, "", *head[:place], *head[place + 1 :]] if place else head
            break


def _arrange_entries(entries: SequenceNode) -> None:
    entries.flow_style = not entries.value
    for place, entry in enumerate(entries.value):
        above = [] if entry.comment is None else entry.comment.before
        if place and above[:1] != [""]:
            notes(entry).before = ["", *above]
        if not isinstance(entry, MappingNode):
            continue
        entry.flow_style = not entry.value
        _sort(entry, lambda name: (_FIELDS.get(name, len(_FIELDS)), ""))
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
    if not any(part.comment and part.comment.has_text for part in parts):
        for part in parts:
            part.comment = None
            if isinstance(part, CollectionNode):
                part.flow_style = True
            elif (
                isinstance(part, ScalarNode)
                and not part.style
                and part.value
                and is_text(part.value)
                and not _is_plain_in_flow(part.value)
            ):
                part.style = '"'


_is_plain_in_flow: Final = regex(r"[A-Za-z0-9_.<][A-Za-z0-9_.@/=+%<> -]*").fullmatch
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
