"""One file of quotas.d, parsed: it depends on no other file, so files can be loaded anywhere and in any order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from quotaform.core.check.finding_list import MAX_PROBLEMS, FindingList
from quotaform.desired.declaration import TRACKED, EntryReader, Profiles
from quotaform.desired.report import FileReport
from quotaform.desired.shape import explain_shape, has_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.document import Document, StopReadingError, UnclearError
from quotaform.desired.yaml.reader import Stream, read_document
from quotaform.model.entity import Entity
from quotaform.model.entry import Entry, LayerFile
from quotaform.model.finding import Finding


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of one file.

    Attributes:
        name: The file in messages.
        layer: The cluster that it is for; `None` for all.
        entries: Its entries, in the order of the file, regardless of the date.
    """

    name: str
    layer: str | None
    entries: list[Entry]
    problems: list[Finding]


ParsedFiles: TypeAlias = dict[str, tuple[SourceFile, LoadedFile]]
"""Files that were parsed, and what they say, by name."""

LoadFile: TypeAlias = Callable[[SourceFile], LoadedFile]
"""Parses a file."""


class FileLoader:
    """Parses files, but for those that were parsed in another state of the directory and say the same there."""

    def __init__(self, profiles: Profiles, parsed: ParsedFiles, has_same_profiles: bool) -> None:
        """Start with nothing parsed.

        Args:
            profiles: The profiles of quotaform.yaml.
            parsed: The files of the other state.
            has_same_profiles: Whether the profiles are the same there.
        """
        self._reader = EntryReader(profiles)
        self._parsed = parsed
        self._has_same_profiles = has_same_profiles

    def __call__(self, source: SourceFile) -> LoadedFile:
        """Return what a file says."""
        known, file = self._parsed.get(source.name, (None, None))
        if file is not None and known == source and (self._has_same_profiles or not _may_use_profile(source)):
            return file
        return _load_file(source, self._reader)


def load_file(source: SourceFile, profiles: Profiles) -> LoadedFile:
    """Read one file; never raises, whatever it contains."""
    return _load_file(source, EntryReader(profiles))


def _load_file(source: SourceFile, reader: EntryReader) -> LoadedFile:
    text = decode(source)
    if isinstance(text, Finding):
        return LoadedFile(source.name, source.layer, [], [text])
    file = LayerFile(source.name, source.layer)
    with suppress(UnclearError):
        return LoadedFile(*file, *_read(file, text, reader, detailed=False))
    return LoadedFile(*file, *_read(file, text, reader, detailed=True))


def _read(file: LayerFile, text: str, reader: EntryReader, *, detailed: bool) -> tuple[list[Entry], list[Finding]]:
    entries: list[Entry] = []
    entities: set[Entity] = set()
    findings = FindingList()

    def take(document: Document) -> None:
        """Read the items of a part of the file, or the rest of it."""
        is_good = has_shape("quotas", document)
        if not is_good and not detailed:
            raise UnclearError
        report = FileReport(document, findings)
        items = document.root.get("quotas") if isinstance(document.root, dict) else None
        if isinstance(items, list):
            known = len(entries)
            reader.read(items, report, file, entries, is_good=is_good)
            entities.update([entry.entity for entry in entries[known:]])
        if not is_good:
            explain_shape("quotas", report)
        if len(entries) - len(entities) > MAX_PROBLEMS:
            raise StopReadingError  # `assemble` reports these duplicates

    document = read_document(file.name, text, detailed=detailed, tracked=TRACKED, stream=Stream("quotas", take))
    if document.root is not None:
        with suppress(StopReadingError):
            take(document)
    for problem in document.problems:
        findings.add(problem)
    return entries, findings.all()


def _may_use_profile(source: SourceFile) -> bool:
    """Whether a file may name a profile: an escape can spell any word."""
    text = source.text if isinstance(source.text, bytes) else source.text.encode(errors="replace")
    return b"profile" in text or b"\\" in text
