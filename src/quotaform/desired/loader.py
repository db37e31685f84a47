"""Loads quotas.d: reads, validates, expands and merges the files.

`load_file` depends on a single file, so files can be loaded anywhere and in any order; `assemble` merges them for
one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from threading import Lock
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS, FindingList, first_findings
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.desired.declaration import TRACKED, EntryReader, Profiles
from quotaform.desired.match import MAX_ENTITIES
from quotaform.desired.report import FileReport
from quotaform.desired.shape import explain_shape, has_shape
from quotaform.desired.tree import Layout, SourceFile, decode
from quotaform.desired.yaml.document import Document, StopReadingError, UnclearError
from quotaform.desired.yaml.reader import Stream, read_document
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import Entity
from quotaform.model.entry import STATE_ABSENT, Cause, Desired, Entry, LayerFile, ValuePlace
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location
from quotaform.model.quotas import Values
from quotaform.model.text import listed

_FEW: Final = 5
"""The limit on separate problems for entities of a file that are out of scope."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of one file.

    Attributes:
        name: The file in messages.
        layer: The cluster that it is for; `None` for all.
        entries: Its entries, in the order of the file, regardless of the date.
        problems: Its problems and warnings.
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


class LoadedFiles:
    """The files of a quotas directory, each parsed once for all clusters.

    A file is parsed when the first cluster that it counts for is asked about; threads may share this. Once the files of
    a cluster have more problems than are shown, or too many entities, the rest of them is not parsed.

    Attributes:
        layout: The files as they were read.
        parsed: The files that were parsed, and what they say, by name.
    """

    __slots__ = ("_by_layer", "_load", "_lock", "_scope", "_today", "layout", "parsed")

    def __init__(self, layout: Layout, load: LoadFile, today: date, scope: Scope) -> None:
        self.layout = layout
        self._load = load
        self._today = today
        self._scope = scope
        self._by_layer: dict[str | None, list[LoadedFile]] = {}
        self.parsed: ParsedFiles = {}
        self._lock = Lock()

    def __getstate__(self) -> tuple[Layout, LoadFile, date, Scope, ParsedFiles]:
        """What another process needs to parse the files itself."""
        return self.layout, self._load, self._today, self._scope, self.parsed

    def __setstate__(self, state: tuple[Layout, LoadFile, date, Scope, ParsedFiles]) -> None:
        self.__init__(*state[:-1])  # type: ignore[misc]
        self.parsed = state[-1]

    def release(self, cluster: str) -> None:
        """Let go of the files of one cluster alone, which are parsed again if somebody asks about it again."""
        with self._lock:
            for file in self._by_layer.pop(cluster, ()):
                self.parsed.pop(file.name, None)

    def files(self, cluster: str | None) -> list[LoadedFile]:
        """Return the files that count for a cluster: the common ones, then its own."""
        with self._lock:
            common = self._layer(None, ())
            return common if cluster is None else common + self._layer(cluster, common)

    def check(self, cluster: str | None) -> tuple[Desired, list[Finding]]:
        """Return the entries of a cluster and all problems, warnings and notes, sorted by location.

        If there are problems, the result contains the valid entries. Files of other clusters are ignored.

        Args:
            cluster: Its name; `None` is about the common files alone.
        """
        desired, findings = conclude(self.files(cluster), self._today, self._scope)
        return desired, first_findings([*self.layout.problems(cluster), *findings])

    def desired(self, cluster: str | None, others: Sequence[Finding] = ()) -> Desired:
        """Return the entries of a cluster.

        Args:
            cluster: Its name; `None` is about the common files alone.
            others: What is wrong with other files of the repository.

        Raises:
            InvalidFilesError: There are problems in the files; it contains all of them.
        """
        desired, findings = self.check(cluster)
        if others:
            findings = first_findings([*findings, *others])
        problems = [finding for finding in findings if finding.severity is Severity.ERROR]
        if problems:
            raise InvalidFilesError(problems)
        return desired

    def layers_of(self, cluster: str | None, entity: Entity) -> list[Entry]:
        """Return the entries of an entity in each layer of a cluster, in the order in which they are merged."""
        found: dict[str | None, Entry] = {}
        for file in self.files(cluster):
            for entry in file.entries:
                if entry.entity == entity:
                    found.setdefault(file.layer, entry)
        return list(found.values())

    def _layer(self, name: str | None, below: Sequence[LoadedFile]) -> list[LoadedFile]:
        """Return the files of a layer, given those of the layer below it; parse them the first time."""
        if name in self._by_layer:
            return self._by_layer[name]
        problems = FindingList(problem for file in below for problem in file.problems)
        room = MAX_ENTITIES - sum(len(file.entries) for file in below)
        layer = self._by_layer[name] = []
        for source in self.layout.layer(name):
            if problems.is_full:
                break
            file = self._load(source)
            self.parsed[source.name] = (source, file)
            room -= len(file.entries)
            found = file.problems if room >= 0 else [*file.problems, _too_many(file)]
            # No more are kept than are shown, of however many files.
            kept = [problem for problem in found if problems.add(problem)]
            layer.append(replace(file, problems=[*kept, *problems.marks()] if len(kept) < len(found) else found))
            if room < 0:
                break
        return layer


def load_files(
    layout: Layout,
    profiles: Profiles,
    today: date,
    scope: Scope = FULL_SCOPE,
    *,
    similar: tuple[LoadedFiles, Profiles] | None = None,
) -> LoadedFiles:
    """Return the files of a quotas directory, from which the entries of each cluster are read.

    Args:
        layout: The files by layer.
        profiles: The profiles of quotaform.yaml.
        today: The day (UTC) on which entries may have expired.
        scope: The entities that the files may speak of.
        similar: The files of the directory in another state, and the profiles there: what was parsed for it and says
            the same here is not parsed again.
    """
    other, other_profiles = similar or (None, profiles)
    # Not the other files themselves, which hold on to those that they were similar to, and so on.
    parsed = {} if other is None else other.parsed
    return LoadedFiles(layout, FileLoader(profiles, parsed, profiles == other_profiles), today, scope)


def _may_use_profile(source: SourceFile) -> bool:
    """Whether a file may name a profile: an escape can spell any word."""
    text = source.text if isinstance(source.text, bytes) else source.text.encode(errors="replace")
    return b"profile" in text or b"\\" in text


def conclude(files: Sequence[LoadedFile], today: date, scope: Scope = FULL_SCOPE) -> tuple[Desired, list[Finding]]:
    """Merge the files, and return the entries with all findings, sorted by location."""
    desired, problems = assemble(files, today)
    outside: dict[LayerFile | None, list[Entry]] = {}
    for entity, entry in desired.items():
        if not scope.contains(entity):
            outside.setdefault(entry.file, []).append(entry)
    for entries in outside.values():
        problems.extend(_out_of_scope(entries))
    return desired, first_findings([*(problem for file in files for problem in file.problems), *problems.all()])


def _too_many(file: LoadedFile) -> Finding:
    text = (
        f"the files up to this one declare more than {MAX_ENTITIES:,} entities, the limit for one cluster; remove some"
    )
    return rule.TOO_MANY_ENTITIES.finding(text, location=Location(file.name))


def _out_of_scope(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield a problem per entry of a file, or a single one at the first entry if there are many."""
    if len(entries) > _FEW:
        first = min(entries, key=lambda entry: entry.position)
        shown = listed((entry.entity.address for entry in entries), _FEW)
        yield rule.OUT_OF_SCOPE.finding(
            f"{len(entries):,} entities of this file are outside of the scope in quotaform.yaml: {shown}; remove the "
            "entries, or extend the scope",
            location=first.location,
        )
        return
    for entry in entries:
        yield rule.OUT_OF_SCOPE.finding(
            f"{entry.entity.address} is declared here, but is outside of the scope in quotaform.yaml; remove the "
            "entry, or extend the scope",
            address=entry.entity.address,
            location=entry.location,
        )


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


def assemble(files: Iterable[LoadedFile], today: date) -> tuple[Desired, FindingList]:
    """Merge the files: each entity once per layer, the cluster's layer over the common one, key by key.

    Args:
        files: The common files and those of at most one cluster.
        today: The day (UTC) on which entries may have expired.
    """
    layers: dict[str | None, dict[Entity, Entry]] = {None: {}}
    problems = FindingList()
    for file in files:
        layer = layers.setdefault(file.layer, {})
        for entry in file.entries:
            first = layer.setdefault(entry.entity, entry)
            if first is not entry and not problems.is_full:
                problems.add(_duplicate(entry, first))
    common = layers[None]
    desired: dict[Entity, Entry] = {}
    for layer in layers.values():
        for entity, entry in layer.items():
            if entry.unset:
                problems.extend(_unset_problems(entry, common.get(entity)))
            if entry.expires is not None and entry.expires <= today:
                entry = entry._replace(values={}, places=(), bare=(), cause=Cause.EXPIRED)
                if problems.takes_others:
                    problems.add(_expired(entry))
            below = desired.get(entity)
            desired[entity] = entry if below is None else _merge(below, entry)
    return desired, problems


def _merge(below: Entry, above: Entry) -> Entry:
    """Return an entry of a layer over that of the layer below it, key by key."""
    values: Values = {}
    places: tuple[ValuePlace, ...] = ()
    bare: tuple[str, ...] = ()
    cause = above.cause
    if above.cause is Cause.ENTRY:
        if not above.values:
            cause = below.cause
        values = {
            key: value
            for key, value in {**below.values, **above.values}.items()
            if above.unset is None or key not in above.unset
        }
        where: dict[str, ValuePlace] = {**below.provenances(), **dict(zip(above.values, above.places, strict=False))}
        places = tuple(where[key] for key in values) if where.keys() >= values.keys() else ()
        if below.bare or above.bare:
            bare = tuple(key for key in values if key in (above.bare if key in above.values else below.bare))
    return above._replace(
        values=values,
        places=places,
        bare=bare,
        cause=cause,
        expires=below.expires if cause is Cause.EXPIRED and above.cause is Cause.ENTRY else above.expires,
        owner=below.owner if above.owner is None else above.owner,
        reason=below.reason if above.reason is None else above.reason,
    )


def _unset_problems(entry: Entry, common: Entry | None) -> Iterator[Finding]:
    """Yield the problems of the keys that an entry removes from the common one."""
    address = entry.entity.address
    declared = common.values if common is not None else {}
    for key, position in (entry.unset or {}).items():
        if key not in declared:
            who = f"the common entry at {common.location} has none" if common else f"no common file declares {address}"
            text = f"{address} has no {key} to unset: {who}; remove it"
            location = Location.at(entry.file.name, position) if entry.file else None
            yield rule.BAD_UNSET.finding(text, address=address, key=key, location=location)
    if declared and not entry.values and not declared.keys() - (entry.unset or {}).keys():
        text = f"unset leaves {address} without any value; write state: absent instead"
        yield rule.NO_VALUES.finding(text, address=address, location=entry.location)


def _duplicate(entry: Entry, first: Entry) -> Finding:
    address = entry.entity.address
    text = f"{address} is declared twice; it is also at {first.location}. Keep one of the two"
    return rule.DUPLICATE_ENTITY.finding(text, address=address, location=entry.location)


def _expired(entry: Entry) -> Finding:
    address = entry.entity.address
    text = (
        f"{address} has {entry.absent}, so it is treated as {STATE_ABSENT}; remove it after the entity has been deleted"
    )
    return rule.EXPIRED.finding(text, address=address, location=entry.location)
