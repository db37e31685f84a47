"""One file of quotas.d: its items, validated and expanded to one entry per entity."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct

from quotaform.desired.match import MAX_ENTITIES, read_match
from quotaform.desired.schema import quotas as quotas_schema
from quotaform.desired.shape import check_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import bare_keys, key_problem, misfit_text, of_entity, read_expires, read_values
from quotaform.desired.yaml.document import Document, StopReadingError, mark_position, spots_of, taken_for
from quotaform.desired.yaml.reader import Stream, read_document
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Location, Position
from quotaform.model.finding_list import MAX_PROBLEMS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Cause, Entry, LayerFile, ProfileUse, ValuePlace, Values
from quotaform.model.text import did_you_mean, listed, quote

Profiles = Mapping[str, Values]
"""Profile name to its values."""

KnownValues: TypeAlias = dict[tuple[tuple[str, float], ...], Values]
"""The values of entries, each once: equal ones are many."""


class LoadedFile(Struct, frozen=True):
    """The content of one file."""

    name: str  # the file in messages
    layer: str | None  # the cluster that it is for; `None` for all
    entries: list[Entry]  # its entries, in the order of the file, regardless of the date
    problems: list[Finding]


ParsedFiles: TypeAlias = dict[str, tuple[SourceFile, LoadedFile]]
"""Files that were parsed, and what they say, by name."""


def load_file(source: SourceFile, profiles: Profiles, known: KnownValues | None = None) -> LoadedFile:
    """Read one file; never raises, whatever it contains.

    `known`: the values that it shares with other files.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return LoadedFile(source.name, source.layer, [], [text])
    reader = _FileReader(LayerFile(source.name, source.layer), profiles, {} if known is None else known)
    document = read_document(source.name, text, stream=Stream("quotas", reader.take))
    if document.root is not None:
        with suppress(StopReadingError):
            reader.take(document)
    return LoadedFile(source.name, source.layer, reader.entries, document.findings.all())


class _FileReader:
    """Turns the items of a file into entries; what is wrong goes to the document."""

    def __init__(self, file: LayerFile, profiles: Profiles, known: KnownValues) -> None:
        self.file = file
        self.profiles = profiles
        self.known = known
        self.entries: list[Entry] = []
        self.entities: set[Entity] = set()

    def take(self, document: Document) -> None:
        """Read the items of a part of the file, or the rest of it.

        Raises `StopReadingError`: there are more problems than are shown.
        """
        # In which items something has another shape, so that nothing is said of what they lack.
        refused = {path[1] for path in check_shape(quotas_schema, document) if len(path) > 1}
        items = document.root.get("quotas") if isinstance(document.root, dict) else None
        if not isinstance(items, list):
            return
        spots, before = spots_of(items), len(self.entries)
        for index, item in enumerate(items):
            if isinstance(item, dict) and isinstance(item.get("match"), dict):
                self.read_item(item, document, mark_position(spots[index][0]), is_whole=index not in refused)
        self.entities.update([entry.entity for entry in self.entries[before:]])
        if len(self.entries) - len(self.entities) > MAX_PROBLEMS:
            raise StopReadingError  # `assemble` reports these duplicates

    def read_item(self, item: dict[str, Any], document: Document, position: Position, *, is_whole: bool) -> None:
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
        places: tuple[ValuePlace, ...] = ()
        bare: tuple[str, ...] = ()
        profile: ProfileUse | None = None
        unset: Mapping[str, Position] | None = None
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
                profile = ProfileUse(name, mark_position(spots_of(item)["profile"][0]))
            own = item.get("values")
            values, places = self.read_values(item, own, entity, document, profile)
            if is_whole and "values" not in item and "profile" not in item and "unset" not in item:
                state = " with state: present" if "state" in item else ""
                text = f"{of_entity(entity)}declares no values{state}; write values, profile or state: absent"
                document.add_at(rule.NO_VALUES, text, Location.at(document.name, position))
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
                    file=self.file,
                    position=position,
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
    ) -> tuple[Values, tuple[ValuePlace, ...]]:
        """Return the values of an item (its profile's, overridden by its own) and where each comes from."""
        values: dict[str, float] = {}
        where: dict[str, ValuePlace] = {}
        if profile is not None and profile.name and document.oddity(item, "profile") is None:
            values.update(self.read_profile(profile.name, item, entity, document))
            where = dict.fromkeys(values, profile)
        if isinstance(own, dict):
            spots = spots_of(own)
            for key, value in read_values(own, entity, document).items():
                values[key] = value
                where[key] = mark_position(spots[key][0])
            if not own:
                text = f"{of_entity(entity)}has no values; add some, or write state: absent"
                document.add(rule.NO_VALUES, text, item, "values")
        return self.known.setdefault(tuple(values.items()), values), tuple(where.values())

    def read_profile(self, name: str, item: dict[str, Any], entity: Entity | None, document: Document) -> Values:
        """Return the values of the profile that an item names."""
        values = self.profiles.get(name)
        if values is None:
            known = f" The profiles are {listed(map(quote, self.profiles))}" if self.profiles else ""
            guess = did_you_mean(name, self.profiles) or "; quotaform.yaml does not define it."
            document.add(rule.UNKNOWN_PROFILE, f"unknown profile {quote(name)}{guess}{known}", item, "profile")
            return {}
        for key in values:
            if entity is not None and not QUOTA_KEYS[key].fits(entity):
                text = f"profile {quote(name)} {misfit_text(key, entity)}"
                document.add(rule.BAD_KEY, text, item, "profile", address=entity.address, quota_key=key)
        return values

    def read_unset(
        self, item: dict[str, Any], entity: Entity | None, document: Document
    ) -> Mapping[str, Position] | None:
        """Return the keys that an item takes away from the common entry, and where it says so."""
        listed, own = item["unset"], item.get("values")
        if self.file.layer is None:
            text = (
                f"{of_entity(entity)}is declared in a common file, but unset removes keys of the common entry; "
                "use it in the directory of a cluster, or remove it"
            )
            document.add(rule.BAD_UNSET, text, item, "unset", at_key=True)
            return None
        unset: dict[str, Position] = {}
        address = entity.address if entity is not None else None
        for index, key in enumerate(listed):
            if not isinstance(key, str) or not key:
                continue
            quota_key, problem = QUOTA_KEYS.get(key), None
            if quota_key is None or (entity is not None and not quota_key.fits(entity)):
                document.add(*key_problem(key, entity), listed, index, address=address)
            elif key in unset:
                problem = "is in unset twice"
            elif isinstance(own, dict) and key in own:
                problem = f"is both in unset and in values, at {document.place(own, key).key}"
            else:
                unset[key] = mark_position(spots_of(listed)[index][0])
            if problem:
                text = f"{of_entity(entity)}{key} {problem}; remove one of the two"
                document.add(rule.BAD_UNSET, text, listed, index, address=address, quota_key=key)
        return unset


def _read_text(item: dict[str, Any], field: str, document: Document) -> str | None:
    """Return the text of a field; what the schema refuses, a number for example, as it is written."""
    value = item.get(field)
    return value if value is None or isinstance(value, str) else document.place(item, field).text
