"""Changes a quotas file: entries that are edited and new ones at its end, written as `quotaform fmt` leaves them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Final

from msgspec import Struct
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from quotaform.desired.format import arrange, unix_lines
from quotaform.desired.writer import match_lines, spell_scalar
from quotaform.desired.yaml.nodes import ALIAS, notes, read_nodes, walk, write_nodes
from quotaform.desired.yaml.reader import MERGE_KEY
from quotaform.model.entity import Entity
from quotaform.model.finding import Location, Position
from quotaform.model.quota_key import key_order

_VALUES: Final = "values"
_GONE: Final = ("profile", "values", "unset", "expires")
"""The fields that `state: absent` does not allow."""
_MARK: Final = "\ufeff"


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
        """Read a file.

        `name`: the file in messages. `schema`: where editors find the schema, if the file is new.
        """
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

    def change(self, position: Position, edit: EntryEdit) -> None:
        """Change the entry at a position, which is of one entity.

        Raises `UneditableError` if it is not written so that it could be changed alone; nothing is changed then.
        """
        at = Location.at(self.name, position)
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
    """Change an entry. Raises `UneditableError`: it is not written so that it could be changed alone."""
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
    """Make sure that nothing elsewhere can be an alias of a part of a node."""
    if any(part.anchor for part in walk(node)):
        raise UneditableError(f"{name} has an anchor")


def _set(mapping: MappingNode, field: str) -> None:
    """Set a field, written as `name: value`.

    Raises `UneditableError` if something elsewhere may be an alias of a part of what is there.
    """
    new_key, new = read_nodes(field).root.value[0]
    for place, (key, value) in enumerate(mapping.value):
        if key.value == new_key.value:
            _require_unanchored(value, key.value)
            mapping.value[place] = (key, new)
            return
    mapping.value.append((new_key, new))


def _remove(mapping: MappingNode, names: Collection[str]) -> None:
    """Take fields away; the comments above one stay.

    Raises `UneditableError` if something elsewhere may be an alias of a part of one.
    """
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
