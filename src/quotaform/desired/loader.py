"""Loads quotas.d: reads, validates, expands and merges the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from threading import Lock

from quotaform.core.check import rule
from quotaform.core.check.finding_list import FindingList, first_findings
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.desired.declaration import Profiles
from quotaform.desired.loaded_file import FileLoader, LoadedFile, LoadFile, ParsedFiles
from quotaform.desired.match import MAX_ENTITIES
from quotaform.desired.merge import conclude
from quotaform.desired.tree import Layout
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location


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
        today: The day (UTC) on which entries may have expired.
        scope: The entities that the files may speak of.
        similar: The files of the directory in another state, and the profiles there: what was parsed for it and says
            the same here is not parsed again.
    """
    other, other_profiles = similar or (None, profiles)
    # Not the other files themselves, which hold on to those that they were similar to, and so on.
    parsed = {} if other is None else other.parsed
    return LoadedFiles(layout, FileLoader(profiles, parsed, profiles == other_profiles), today, scope)


def _too_many(file: LoadedFile) -> Finding:
    text = (
        f"the files up to this one declare more than {MAX_ENTITIES:,} entities, the limit for one cluster; remove some"
    )
    return rule.TOO_MANY_ENTITIES.finding(text, location=Location(file.name))
