"""Loads quotas.d: its files, validated and expanded to one entry per entity, merged for one cluster.

Also what other repositories declare for it: no entity may be declared for one cluster by two repositories, since each
would take back what the other one applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import product
from operator import attrgetter
from threading import Lock
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quotaform.desired.field import (
    MAX_ENTITIES,
    bare_keys,
    key_problem,
    misfit_text,
    of_entity,
    read_expires,
    read_match,
    read_values,
)
from quotaform.desired.schema import quotas as quotas_schema
from quotaform.desired.shape import check_shape
from quotaform.desired.tree import Layout, SourceFile
from quotaform.desired.yaml.document import Document, StopReadingError, spots_of, taken_for
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import STATE_ABSENT, Cause, Desired, Entry, ProfileUse, Values
from quotaform.model.rule import MAX_PROBLEMS, FindingList, first_findings
from quotaform.model.scope import FULL_SCOPE, Scope
from quotaform.model.text import did_you_mean, listed, quote

Profiles = Mapping[str, Values]
"""Profile name to its values."""

KnownValues: TypeAlias = dict[tuple[tuple[str, float], ...], Values]
"""The values of entries, each once: equal ones are many."""


class LoadedFile(Struct, frozen=True):
    """The content of one file."""

    source: SourceFile
    entries: list[Entry]  # its entries, in the order of the file, regardless of the date
    problems: list[Finding]


def load_file(source: SourceFile, profiles: Profiles, known: KnownValues | None = None) -> LoadedFile:
    """Read one file; never raises, whatever it contains. `known`: the values that it shares with other files."""
    reader = _FileReader(source.layer, profiles, {} if known is None else known)
    document = read_document(source, take=reader.take)
    if document.root is not None:
        with suppress(StopReadingError):
            reader.take(document)
    return LoadedFile(source, reader.entries, document.findings.all())


class _FileReader:
    """Turns the items of a file into entries; what is wrong goes to the document."""

    def __init__(self, layer: str | None, profiles: Profiles, known: KnownValues) -> None:
        self.layer = layer
        self.profiles = profiles
        self.known = known
        self.entries: list[Entry] = []
        self.entities: set[Entity] = set()

    def take(self, document: Document) -> None:
        """Read the items of a part of the file. Raises `StopReadingError` if there are more problems than are shown."""
        # In which items something has another shape, so that nothing is said of what they lack.
        refused = {path[1] for path in check_shape(quotas_schema, document) if len(path) > 1}
        items = document.root.get("quotas") if isinstance(document.root, dict) else None
        if not isinstance(items, list):
            return
        spots, before = spots_of(items), len(self.entries)
        for index, item in enumerate(items):
            if isinstance(item, dict) and isinstance(item.get("match"), dict):
                self.read_item(item, document, document.location(spots[index][0]), is_whole=index not in refused)
        self.entities.update([entry.entity for entry in self.entries[before:]])
        if len(self.entries) - len(self.entities) > MAX_PROBLEMS:
            raise StopReadingError  # `conclude` reports these duplicates

    def read_item(self, item: dict[str, Any], document: Document, location: Location, *, is_whole: bool) -> None:
        """Add the entries of one item."""
        errors = document.errors
        named = read_match(item["match"], document, MAX_ENTITIES - len(self.entries))
        entity = named[0] if named else None
        for field in ("owner", "reason", "profile") if document.has_odd else ():
            if (oddity := document.oddity(item, field)) is not None:
                text = f"{field} must be text, but {taken_for(item[field], oddity)}"
                document.add(rule.WRONG_TYPE, text, item, field)
        expires = read_expires(item, document) if "expires" in item else None
        values: Values = {}
        places: tuple[Location, ...] = ()
        bare: tuple[str, ...] = ()
        profile: ProfileUse | None = None
        unset: Mapping[str, Location] | None = None
        cause = Cause.ENTRY
        if item.get("state") == "absent":
            cause = Cause.TOMBSTONE
            for field in ("values", "profile", "unset", "expires"):
                if field not in item:
                    continue
                text = f"{of_entity(entity)}has state: absent, which does not allow {field}; remove one of the two"
                document.add(rule.BAD_STATE, text, item, field, at_key=True)
        else:
            if isinstance(name := item.get("profile"), str):
                profile = ProfileUse(name, document.location(spots_of(item)["profile"][0]))
            own = item.get("values")
            values, places = self.read_values(item, own, entity, document, profile)
            if is_whole and "values" not in item and "profile" not in item and "unset" not in item:
                state = " with state: present" if "state" in item else ""
                text = f"{of_entity(entity)}declares no values{state}; write values, profile or state: absent"
                document.add_finding(rule.NO_VALUES.finding(text, location=location))
            if isinstance(own, dict):
                bare = bare_keys(own, values)
            if isinstance(item.get("unset"), list):
                unset = self.read_unset(item, entity, document)
        if not named or not (values or unset or cause is Cause.TOMBSTONE) or document.errors > errors:
            return
        owner, reason = _read_text(item, "owner", document), _read_text(item, "reason", document)
        for declared in named:
            self.entries.append(
                Entry(
                    entity=declared,
                    values=values,
                    location=location,
                    layer=self.layer,
                    places=places,
                    owner=owner,
                    reason=reason,
                    cause=cause,
                    expires=expires,
                    profile=profile,
                    unset=unset,
                    bare=bare,
                )
            )

    def read_values(
        self, item: dict[str, Any], own: object, entity: Entity | None, document: Document, profile: ProfileUse | None
    ) -> tuple[Values, tuple[Location, ...]]:
        """Return the values of an item (its profile's, overridden by its own) and where each comes from."""
        values: dict[str, float] = {}
        where: dict[str, Location] = {}
        if profile is not None and profile.name and document.oddity(item, "profile") is None:
            named = self.profiles.get(profile.name)
            if named is None:
                known = f" The profiles are {listed(map(quote, self.profiles))}" if self.profiles else ""
                guess = did_you_mean(profile.name, self.profiles) or "; quotaform.yaml does not define it."
                text = f"unknown profile {quote(profile.name)}{guess}{known}"
                document.add(rule.UNKNOWN_PROFILE, text, item, "profile")
            for key, value in (named or {}).items():
                values[key], where[key] = value, profile.location
                if entity is not None and not QUOTA_KEYS[key].fits(entity):
                    text = f"profile {quote(profile.name)} {misfit_text(key, entity)}"
                    document.add(rule.BAD_KEY, text, item, "profile", entity=entity, quota_key=key)
        if isinstance(own, dict):
            spots = spots_of(own)
            for key, value in read_values(own, entity, document).items():
                values[key] = value
                where[key] = document.location(spots[key][0])
            if not own:
                text = f"{of_entity(entity)}has no values; add some, or write state: absent"
                document.add(rule.NO_VALUES, text, item, "values")
        return self.known.setdefault(tuple(values.items()), values), tuple(where.values())

    def read_unset(
        self, item: dict[str, Any], entity: Entity | None, document: Document
    ) -> Mapping[str, Location] | None:
        """Return the keys that an item takes away from the common entry, and where it says so."""
        listed, own = item["unset"], item.get("values")
        if self.layer is None:
            text = "unset takes keys from the common entry; use it in the directory of a cluster, or remove it"
            document.add(rule.BAD_UNSET, f"{of_entity(entity, ': ')}{text}", item, "unset", at_key=True)
            return None
        unset: dict[str, Location] = {}
        for index, key in enumerate(listed):
            if not isinstance(key, str) or not key:
                continue
            quota_key, problem = QUOTA_KEYS.get(key), None
            if quota_key is None or (entity is not None and not quota_key.fits(entity)):
                document.add(*key_problem(key, entity), listed, index, entity=entity)
            elif key in unset:
                problem = "is in unset twice"
            elif isinstance(own, dict) and key in own:
                problem = f"is both in unset and in values, at {document.place(own, key).key}"
            else:
                unset[key] = document.place(listed, index).key
            if problem:
                text = f"{of_entity(entity)}{key} {problem}; remove one of the two"
                document.add(rule.BAD_UNSET, text, listed, index, entity=entity, quota_key=key)
        return unset


def _read_text(item: dict[str, Any], field: str, document: Document) -> str | None:
    """Return the text of a field; what the schema refuses, a number for example, as it is written."""
    value = item.get(field)
    return value if value is None or isinstance(value, str) else document.place(item, field).text


def conclude(files: Sequence[LoadedFile], today: date, scope: Scope = FULL_SCOPE) -> tuple[Desired, list[Finding]]:
    """Merge files: each entity once per layer, the cluster's layer over the common one, key by key.

    `files`: the common ones and those of at most one cluster. `today`: the day (UTC) on which entries may have expired.
    Returns the entries, and all findings sorted by location.
    """
    layers: dict[str | None, dict[Entity, Entry]] = {None: {}}
    problems = FindingList()
    for file in files:
        layer = layers.setdefault(file.source.layer, {})
        for entry in file.entries:
            first = layer.setdefault(entry.entity, entry)
            if first is not entry and not problems.is_full:
                address = entry.entity.address
                text = f"{address} is declared twice; it is also at {first.location}. Keep one of the two"
                problems.add(rule.DUPLICATE_ENTITY.finding(text, address=address, location=entry.location))
    common = layers[None]
    desired: dict[Entity, Entry] = {}
    for layer in layers.values():
        for entity, entry in layer.items():
            if entry.unset:
                problems.extend(_unset_problems(entry, common.get(entity)))
            if entry.expires is not None and entry.expires <= today:
                entry = entry._replace(values={}, places=(), bare=(), cause=Cause.EXPIRED)
                address = entity.address
                text = f"{address} has {entry.absent}, so it is treated as {STATE_ABSENT}"
                text += "; remove it after the entity has been deleted"
                problems.add(rule.EXPIRED.finding(text, address=address, location=entry.location))
            below = desired.get(entity)
            desired[entity] = entry if below is None else _merge(below, entry)
    outside: dict[str, list[Entry]] = {}
    for entity, entry in desired.items():
        if entry.location is not None and not scope.contains(entity):
            outside.setdefault(entry.location.file, []).append(entry)
    for entries in outside.values():
        first = min(entries, key=attrgetter("location"))
        text = (
            f"{listed((entry.entity.address for entry in entries), 5)}: declared here, but outside of the scope in "
            f"quotaform.yaml, where * does not stand for {DEFAULT_WORD}; remove it here, or change the scope"
        )
        problems.add(rule.OUT_OF_SCOPE.finding(text, address=first.entity.address, location=first.location))
    return desired, first_findings([*(problem for file in files for problem in file.problems), *problems.all()])


def _merge(below: Entry, above: Entry) -> Entry:
    """Return an entry of a layer over that of the layer below it, key by key."""
    values: Values = {}
    places: tuple[Location, ...] = ()
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
        where = below.provenances() | above.provenances()
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
    address = entry.entity.address
    declared = common.values if common is not None else {}
    for key, location in (entry.unset or {}).items():
        if key not in declared:
            who = f"the common entry at {common.location} has none" if common else f"no common file declares {address}"
            text = f"{address} has no {key} to unset: {who}; remove it"
            yield rule.BAD_UNSET.finding(text, address=address, key=key, location=location)
    if declared and not entry.values and not declared.keys() - (entry.unset or {}).keys():
        text = f"unset leaves {address} without any value; write state: absent instead"
        yield rule.NO_VALUES.finding(text, address=address, location=entry.location)


class LoadedFiles:
    """The files of a quotas directory, each parsed once for all clusters.

    A file is parsed when the first cluster that it counts for is asked about; threads may share this. Once the files of
    a cluster have more problems than are shown, or too many entities, the rest of them is not parsed.
    """

    def __init__(
        self,
        layout: Layout,
        profiles: Profiles,
        today: date,
        scope: Scope = FULL_SCOPE,
        *,
        similar: LoadedFiles | None = None,
    ) -> None:
        """Take the files of a directory; none is parsed yet.

        `today`: the day (UTC) on which entries may have expired. `scope`: the entities that the files may declare.
        `similar`: the files in another state of the repository; those that are the same are not parsed again.
        """
        self.layout = layout  # the files as they were read
        self.profiles = profiles
        self.parsed: dict[str, LoadedFile] = {}  # the files that were parsed, by name
        self._today = today
        self._scope = scope
        self._known: KnownValues = {}
        # Not the other files themselves, which hold on to those that they were similar to, and so on.
        self._similar = similar.parsed if similar is not None and similar.profiles == profiles else {}
        self._by_layer: dict[str | None, list[LoadedFile]] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to parse the files itself."""
        return {name: value for name, value in vars(self).items() if name not in ("_by_layer", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _by_layer={}, _lock=Lock())

    def release(self, cluster: str) -> None:
        """Drop the files of one cluster alone, which are parsed again if they are needed again."""
        with self._lock:
            for file in self._by_layer.pop(cluster, ()):
                self.parsed.pop(file.source.name, None)

    def files(self, cluster: str | None) -> list[LoadedFile]:
        """Return the files that count for a cluster: the common ones, then its own."""
        with self._lock:
            common = self._layer(None, ())
            return common if cluster is None else common + self._layer(cluster, common)

    def check(self, cluster: str | None) -> tuple[Desired, list[Finding]]:
        """Return the valid entries of a cluster (`None`: of the common files alone), and all findings by location."""
        desired, findings = conclude(self.files(cluster), self._today, self._scope)
        return desired, first_findings([*self.layout.problems(cluster), *findings])

    def desired(self, cluster: str | None, others: Sequence[Finding] = ()) -> Desired:
        """Return the entries of a cluster (`None`: of the common files alone).

        Raises `InvalidFilesError` with all problems: those of its files, and `others` of the repository.
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
                    found.setdefault(file.source.layer, entry)
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
            file = self._similar.get(source.name)
            if file is None or file.source != source:
                file = load_file(source, self.profiles, self._known)
            self.parsed[source.name] = file
            room -= len(file.entries)
            found = file.problems
            if room < 0:
                text = f"the files up to this one declare more than {MAX_ENTITIES:,} entities; remove some"
                found = [*found, rule.TOO_MANY_ENTITIES.finding(text, location=Location(source.name))]
            # No more are kept than are shown, of however many files.
            kept = [problem for problem in found if problems.add(problem)]
            layer.append(replace(file, problems=[*kept, *problems.marks()] if len(kept) < len(found) else found))
            if room < 0:
                break
        return layer


class Claim(Struct, frozen=True):
    """What one repository declares for one cluster (`None` without clusters); also tombstones and expired entries."""

    cluster: str | None
    cluster_id: str | None
    desired: Desired

    def is_of(self, cluster: str | None, cluster_id: str | None) -> bool:
        """Whether it is about a cluster: the one with the same id, or with the same name when an id is not known.

        >>> Claim("prod", "a", {}).is_of("main", "a"), Claim("prod", "a", {}).is_of("prod", "b")
        (True, False)
        >>> Claim("prod", None, {}).is_of("prod", "a")
        True
        """
        if self.cluster_id and cluster_id:
            return self.cluster_id == cluster_id
        return self.cluster == cluster


def check_claims(own: Iterable[Claim], others: Sequence[Claim]) -> list[Finding]:
    """Return an error for each entity that a repository (`own`) and another one declare for the same cluster."""
    conflicts = FindingList()
    for claim, other in product(own, others):
        if not other.is_of(claim.cluster, claim.cluster_id):
            continue
        cluster = f" ({claim.cluster})" if claim.cluster else ""
        for entity in (each for each in claim.desired if not conflicts.is_full and each in other.desired):
            text = (
                f"{entity.address} is declared here and in another quota repository, at "
                f"{other.desired[entity].location}, for the same cluster{cluster}; declare it in one of them"
            )
            location = claim.desired[entity].location
            conflicts.add(rule.CLAIMED_TWICE.finding(text, address=entity.address, location=location))
    return conflicts.all()
