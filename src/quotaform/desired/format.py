"""Writes YAML files in one style: `quotaform fmt`, and edits of single entries, which leave a file in that style."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from itertools import dropwhile, pairwise
from re import compile as regex
from typing import Any, Final

import yaml
from msgspec import Struct
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from quotaform.desired.field import SMALL_RATE
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.writer import match_lines, spell_scalar
from quotaform.desired.yaml.document import YamlList, YamlMapping, is_text, spot_of
from quotaform.desired.yaml.nodes import ALIAS, NodeFile, find_comments, notes, read_nodes, walk, write_nodes
from quotaform.desired.yaml.reader import MERGE_KEY, read_document
from quotaform.model import rule
from quotaform.model.entity import Entity
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

    The result declares the same, with the same comments. All its lines end as the first one does.
    """
    decoded = decode(source)
    if isinstance(decoded, Finding):
        return FormattedFile(name=source.name, before="", after="", problems=(decoded,))
    raw = source.text
    is_marked = raw.startswith(_MARK) if isinstance(raw, str) else raw.startswith(_MARK.encode())
    before = _MARK + decoded if is_marked else decoded
    text, line_end = unix_lines(decoded)
    content = read_document(SourceFile(source.name, text), most_values=_MOST_VALUES)
    problems = content.findings.all()
    formatted = None
    if not problems:
        with suppress(YAMLError, yaml.YAMLError):
            file = read_nodes(text)
            arrange(file)
            written = write_nodes(file)
            formatted = written if find_comments(written) == find_comments(text) else None
    if formatted is not None and formatted != text:
        other = read_document(SourceFile(source.name, formatted), most_values=_MOST_VALUES)
        if other.errors or not _is_same(content.root, other.root):
            formatted = None
    after = before if formatted is None else formatted.replace("\n", line_end)
    if formatted is None and not problems:
        message = "this file cannot be formatted without changing what it declares, so it is left unchanged"
        problems = [rule.UNFORMATTABLE.finding(message, location=Location(source.name))]
    return FormattedFile(name=source.name, before=before, after=after, problems=tuple(problems))


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
    return [part.anchor or part.value for part in walk(node) if part.anchor or getattr(part, "style", None) == ALIAS]


def _make_flow(node: CollectionNode) -> None:
    parts = list(walk(node))
    if any(any((*each.before, *each.trailing, *each.closing)) for part in parts if (each := part.comment)):
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


_VALUES: Final = "values"
_GONE: Final = ("profile", "values", "unset", "expires")
"""The fields that `state: absent` does not allow."""


class UneditableError(Exception):
    """A value cannot be changed without changing others, or is not written here; the message says why."""


class EntryEdit(Struct, frozen=True, kw_only=True):
    """What is to change of an entry."""

    entity: Entity
    values: Mapping[str, str]  # the values that are set, as they are spelled, by quota key
    gone: frozenset[str] = frozenset()  # the keys that it is to have no value of
    unset: frozenset[str] = frozenset()  # those of them that the common entry has
    is_absent: bool = False  # whether the entity must not exist any more; then nothing else is changed
    reason: str | None = None  # the text of the field `reason`; `None` leaves it as it is

    @property
    def fields(self) -> list[str]:
        """What it says of the entity, a field per text."""
        if self.is_absent:
            found = ["state: absent"]
        else:
            values = ", ".join(f"{key}: {spelled}" for key, spelled in self.values.items())
            found = [f"{_VALUES}: {{{values}}}"] if values else []
            found += [f"unset: [{', '.join(sorted(self.unset, key=key_order))}]"] if self.unset else []
        return found if self.reason is None else [*found, f"reason: {spell_scalar(self.reason)}"]


class FileEdit:
    """A file that is edited. `before` is its content, which must be valid; empty for a new file."""

    def __init__(self, name: str, text: str, schema: str) -> None:
        """Read a file. `name`: the file in messages. `schema`: where editors find the schema, if the file is new."""
        self.name = name
        self.before = text
        new = f"# yaml-language-server: $schema={schema}\nquotas: []\n"
        lines, self._line_end = unix_lines(text.removeprefix(_MARK) or new)
        self._file = read_nodes(lines)
        self._entries: SequenceNode | None = None  # the list of entries; `None` if the file has none of its own
        for key, value in self._file.root.value if isinstance(self._file.root, MappingNode) else ():
            if key.value == "quotas" and isinstance(value, SequenceNode):
                self._entries = value
        nodes = [] if self._entries is None else self._entries.value
        # A prelude is no part of what the positions of nodes are in.
        above = lines.count("\n") - self._file.body.count("\n")
        self._is_changed = False
        self._places = {
            (node.start_mark.line + above + 1, node.start_mark.column + 1): place for place, node in enumerate(nodes)
        }

    def change(self, at: Location, edit: EntryEdit) -> None:
        """Change the entry at a place of the file, which must be of one entity.

        Raises `UneditableError`, and changes nothing, if it is written so that it cannot be changed alone.
        """
        place = self._places.get((at.line, at.column))
        if place is None or self._entries is None:
            raise UneditableError("it is merged from elsewhere in the file")
        entry = deepcopy(self._entries.value[place])
        _edit_entry(entry, edit)
        self._entries.value[place] = entry
        self._is_changed = True

    def add(self, edit: EntryEdit) -> None:
        """Add an entry at the end. Raises `UneditableError` if the file has no list of entries."""
        if self._entries is None:
            raise UneditableError(f"{self.name} has no list of entries of its own; write quotas: []")
        lines = [*match_lines(edit.entity), *(f"    {field}" for field in edit.fields)]
        entry = read_nodes("\n".join(["quotas:", *lines])).root.value[0][1].value[0]
        for key, value in entry.value:
            if key.value == _VALUES:
                value.flow_style = False
        self._entries.value.append(entry)
        self._is_changed = True

    def after(self) -> str:
        """Return the new content; the file is not edited any more then."""
        if not self._is_changed:
            return self.before
        arrange(self._file)
        mark = _MARK if self.before.startswith(_MARK) else ""
        return mark + write_nodes(self._file).replace("\n", self._line_end)


def _edit_entry(node: Node, edit: EntryEdit) -> None:
    entry = _own(node)
    keys = {key.value: value for key, value in entry.value}
    if MERGE_KEY in keys:
        raise UneditableError("it is merged from elsewhere in the file")
    for key, _ in entry.value:
        _require_unanchored(key, key.value)
    fields = edit.fields
    if edit.is_absent:
        for key, _ in entry.value:
            if key.value in _GONE:
                _set(entry, f"{key.value}: absent")
                key.value = "state"
                break
        _remove(entry, _GONE)
    elif _VALUES in keys:
        values = _own(keys[_VALUES])
        declared = {key.value for key, _ in values.value}
        if not edit.gone <= declared | edit.unset:
            raise UneditableError("it comes from elsewhere in the file")
        for name, spelled in edit.values.items():
            _set(values, f"{name}: {spelled}")
        if edit.gone >= declared | edit.values.keys():
            _remove(entry, {_VALUES})
        else:
            _remove(values, edit.gone)
        fields = [field for field in fields if not field.startswith(_VALUES)]
    elif edit.gone - edit.unset:
        raise UneditableError("its values come from elsewhere")
    if edit.unset and "unset" in keys and not edit.is_absent:
        raise UneditableError("it has a list unset already")
    for field in fields:
        _set(entry, field)


def _own(node: Node) -> MappingNode:
    """Return a mapping that is written here, for nothing else."""
    if node.anchor or getattr(node, "style", None) == ALIAS:
        raise UneditableError("it has an anchor, or is an alias")
    if not isinstance(node, MappingNode):
        raise UneditableError("it is no mapping")
    return node


def _require_unanchored(node: Node, name: str) -> None:
    if any(part.anchor for part in walk(node)):
        raise UneditableError(f"{name} has an anchor")


def _set(mapping: MappingNode, field: str) -> None:
    """Set a field, written as `name: value`. Raises `UneditableError` if an alias may refer to what it replaces."""
    new_key, new = read_nodes(field).root.value[0]
    for place, (key, value) in enumerate(mapping.value):
        if key.value == new_key.value:
            _require_unanchored(value, key.value)
            mapping.value[place] = (key, new)
            return
    mapping.value.append((new_key, new))


def _remove(mapping: MappingNode, names: Collection[str]) -> None:
    """Remove fields; the comments above one stay. Raises `UneditableError` if an alias may refer to a part of one."""
    kept, above = [], []
    for key, value in mapping.value:
        if key.value in names:
            _require_unanchored(value, key.value)
            above += notes(key).before
        else:
            if above:
                notes(key).before[:0] = above
                above = []
            kept.append((key, value))
    notes(mapping).closing[:0] = above
    mapping.value = kept
