"""The changes of one quotas file: entries that are edited, and new ones at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quotaform.desired.edit.entry_edit import EntryEdit, edit_entry, new_entry_lines
from quotaform.desired.edit.mapping_text import Items, Splice, UneditableError, content_end, read_items, spliced
from quotaform.desired.format.formatter import format_source
from quotaform.desired.tree import SourceFile
from quotaform.model.location import Location, Position

_MARK: Final = "\ufeff"


class FileEdit:
    """A file that is edited, and what could not be."""

    def __init__(self, name: str, text: str) -> None:
        """Read a file.

        Args:
            name: The file in messages.
            text: Its content, which must be valid; empty for a new file.
        """
        self.name = name
        self.before = text
        self._marked = text.startswith(_MARK)
        self._text = text.removeprefix(_MARK)
        self._items: Items = read_items(self._text) if text else Items({}, None)
        self._splices: list[Splice] = []
        self._new: list[EntryEdit] = []

    def change(self, position: Position, edit: EntryEdit) -> None:
        """Change the entry at a position.

        Raises `UneditableError` if it is not written so that it could be changed alone; nothing is changed then.
        """
        place = Location.at(self.name, position)
        node = self._items.by_place.get((place.line, place.column))
        if node is None:
            raise UneditableError("it is merged from elsewhere in the file")
        splices = edit_entry(self._text, node, edit)
        spliced(self._text, splices)
        self._splices += splices

    def add(self, edit: EntryEdit) -> None:
        """Add an entry at the end. Raises `UneditableError` if the entries of the file are in brackets."""
        sequence = self._items.sequence
        if self.before and (sequence is None or sequence.flow_style or not sequence.value):
            raise UneditableError(f"{self.name} has its entries in brackets, or none; write them as a list")
        self._new.append(edit)

    def after(self, schema: str) -> str:
        """Return the new content; formatted if it was before.

        Args:
            schema: Where editors find the schema, if the file is new.
        """
        text = spliced(self._text, [*self._splices, *self._appended()]) if self.before else self._created(schema)
        after = f"{_MARK if self._marked else ''}{text}"
        formatted = format_source(SourceFile(self.name, self.before))
        if self.before and not formatted.is_changed and not formatted.problems:
            again = format_source(SourceFile(self.name, after))
            return after if again.problems else again.after
        return after

    def _created(self, schema: str) -> str:
        entries = [line for edit in self._new for line in ("", *new_entry_lines(edit))]
        return "\n".join([f"# yaml-language-server: $schema={schema}", "quotas:", *entries[1:]]) + "\n"

    def _appended(self) -> Sequence[Splice]:
        if not self._new:
            return ()
        sequence = self._items.sequence
        end = content_end(self._text, sequence)
        stop = self._text.find("\n", end)
        stop = len(self._text) if stop < 0 else stop
        line_end = "\r\n" if "\r\n" in self._text else "\n"
        pad = " " * (sequence.start_mark.column)
        lines = [line for edit in self._new for line in ("", *new_entry_lines(edit))]
        shifted = [f"{pad}{line[2:]}" if line else "" for line in lines]
        if stop and self._text[stop - 1 : stop] == "\r":
            stop -= 1
        return [Splice(stop, stop, "".join(f"{line_end}{line}" for line in shifted))]
