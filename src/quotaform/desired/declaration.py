"""Validates the items of a quotas file and expands them to one entry per entity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from re import compile as regex
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.day import read_expires
from quotaform.desired.match import MAX_ENTITIES, read_match
from quotaform.desired.report import FileReport, Part
from quotaform.desired.value import bare_keys, find_key_problem, misfit_text, of_entity, parse_fitting, read_values
from quotaform.desired.yaml.document import Document
from quotaform.desired.yaml.scalar import glued_key, taken_for
from quotaform.model.entity import CLIENT_ID, DEFAULT_WORD, USER, Entity
from quotaform.model.entry import Cause, Entry, LayerFile, ProfileUse, ValuePlace
from quotaform.model.location import Position
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.text import did_you_mean, listed, nearest, quote
from quotaform.schema.catalog import load_schema

Profiles = Mapping[str, Values]
"""Profile name to its values."""

TRACKED: Final = frozenset({"values", "profile"})
"""The keys of an item from which the provenance of its values is made."""

_TEXT_FIELDS: Final = ("owner", "reason", "profile")


class EntryReader:
    """Turns the items of files into entries; keeps equal values once."""

    def __init__(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.known: dict[tuple[tuple[str, float], ...], Values] = {}
        self.plain = PlainItemReader(self.share)

    def read(
        self, items: list[Any], report: FileReport, file: LayerFile, entries: list[Entry], *, is_good: bool
    ) -> None:
        """Read the `quotas` of one file, or some of them; what is wrong goes to the report.

        Args:
            entries: The entries of the file that were read before; takes those of the list.
            is_good: Whether the items have the shape of their schema.

        Raises:
            UnclearError: Something is wrong and the document was read without details.
            StopReadingError: There are more problems than are shown.
        """
        document = report.document
        starts = document.starts[id(items)]
        may_be_plain = not document.odd and is_good
        for index, (item, position) in enumerate(zip(items, starts, strict=True)):
            if not isinstance(item, dict):
                continue
            if may_be_plain and len(entries) < MAX_ENTITIES:
                entry = self.plain.read(item, document, file, position)
                if entry is not None:
                    entries.append(entry)
                    continue
            self.read_item(item, report.at("quotas", index), file, position, entries)

    def share(self, values: Values) -> Values:
        """Return the same values for equal ones, which are many."""
        return self.known.setdefault(tuple(values.items()), values)

    def read_item(
        self, item: dict[str, Any], part: Part, file: LayerFile, position: Position, entries: list[Entry]
    ) -> None:
        """Add the entries of one item."""
        match = item.get("match")
        if not isinstance(match, dict):
            return
        errors = part.errors
        report_misplaced(item, part)
        named = read_match(match, part.at("match"), MAX_ENTITIES - len(entries))
        entity = named[0] if named else None
        if part.document.odd:
            _check_texts(item, part)
        expires = read_expires(item, part) if "expires" in item else None
        values: Values = {}
        places: tuple[ValuePlace, ...] = ()
        bare: tuple[str, ...] = ()
        profile: ProfileUse | None = None
        unset: Mapping[str, Position] | None = None
        if item.get("state") == "absent":
            _check_absent(item, entity, part)
            cause = Cause.TOMBSTONE
        else:
            cause = Cause.ENTRY
            if "profile" in item:
                profile = _profile_use(item, part, position)
            values, places = self.read_values(item, entity, part, position, profile)
            if isinstance(own := item.get("values"), dict):
                bare = bare_keys(own, values)
            if "unset" in item:
                unset = _read_unset(item, entity, part, file)
        if not named or not (values or unset or cause is Cause.TOMBSTONE) or part.errors > errors:
            return
        owner, reason = (_read_text(item, field, part) for field in ("owner", "reason"))
        for declared in named:
            entries.append(  # noqa: PERF401
                Entry(
                    entity=declared,
                    values=values,
                    file=file,
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
        self,
        item: dict[str, Any],
        entity: Entity | None,
        part: Part,
        position: Position,
        profile: ProfileUse | None,
    ) -> tuple[Values, tuple[ValuePlace, ...]]:
        """Return the values of an item (its profile's, overridden by its own) and where each comes from."""
        own = item.get("values")
        values: dict[str, float] = {}
        where: dict[str, ValuePlace] = {}
        if "profile" in item:
            values.update(self.read_profile(item, entity, part.at("profile")))
            where = dict.fromkeys(values, profile or position)
        if isinstance(own, dict):
            written = read_values(own, entity, part.at("values"))
            values.update(written)
            positions = part.document.keys.get(id(own)) or [position] * len(own)
            where.update((key, at) for key, at in zip(own, positions, strict=True) if key in written)
            if not own:
                text = f"{of_entity(entity)}has no values; add some, or write state: absent"
                part.at("values").add(rule.NO_VALUES, text, item, "values")
        elif (
            item.keys().isdisjoint({"profile", "values", "unset"})
            and item.get("state", "present") == "present"
            and not misspells_any(item)
        ):
            state = " with state: present" if "state" in item else ""
            text = f"{of_entity(entity)}declares no values{state}; write values, profile or state: absent"
            part.at("").add_at(rule.NO_VALUES, text, part.document.locate(part.path).value)
        return self.share(values), tuple(where.values())

    def read_profile(self, item: dict[str, Any], entity: Entity | None, part: Part) -> Values:
        """Return the values of the profile that an item names."""
        name = item["profile"]
        if not isinstance(name, str) or not name or (id(item), "profile") in part.document.odd:
            return {}
        values = self.profiles.get(name)
        if values is None:
            known = f" The profiles are {listed(map(quote, self.profiles))}" if self.profiles else ""
            guess = did_you_mean(name, self.profiles) or "; quotaform.yaml does not define it."
            part.add(rule.UNKNOWN_PROFILE, f"unknown profile {quote(name)}{guess}{known}", item, "profile")
            return {}
        for key in values:
            if entity is not None and not QUOTA_KEYS[key].fits(entity):
                text = f"profile {quote(name)} {misfit_text(key, entity)}"
                part.add(rule.BAD_KEY, text, item, "profile", address=entity.address, quota_key=key)
        return values


def _profile_use(item: dict[str, Any], part: Part, position: Position) -> ProfileUse | None:
    name = item["profile"]
    if not isinstance(name, str):
        return None
    return ProfileUse(name, part.document.tracked.get((id(item), "profile"), position))


def _read_unset(
    item: dict[str, Any], entity: Entity | None, part: Part, file: LayerFile
) -> Mapping[str, Position] | None:
    """Return the keys that an item takes away from the common entry, and where it says so."""
    listed = item["unset"]
    if not isinstance(listed, list):
        return None
    unset: dict[str, Position] = {}
    starts = part.document.starts[id(listed)]
    own = item.get("values")
    if file.layer is None:
        text = (
            f"{of_entity(entity)}is declared in a common file, but unset removes keys of the common entry; "
            "use it in the directory of a cluster, or remove it"
        )
        part.at("unset").add(rule.BAD_UNSET, text, item, "unset", at_key=True)
        return None
    for index, key in enumerate(listed):
        here = part.at("unset", index)
        address = entity.address if entity is not None else None
        if not isinstance(key, str):
            continue
        problem = find_key_problem(key, entity)
        if problem is not None:
            here.add(problem[0], problem[1], listed, index, address=address)
        elif key in unset:
            text = f"{of_entity(entity)}{key} is in unset twice; remove one of the two"
            here.add(rule.BAD_UNSET, text, listed, index, address=address, quota_key=key)
        elif isinstance(own, dict) and key in own:
            other = part.document.place(own, key).key
            text = f"{of_entity(entity)}{key} is both in unset and in values, at {other}; remove one of the two"
            here.add(rule.BAD_UNSET, text, listed, index, address=address, quota_key=key)
        else:
            unset[key] = starts[index]
    return unset


def _read_text(item: dict[str, Any], field: str, part: Part) -> str | None:
    """Return the text of a field; what the schema refuses, a number for example, as it is written."""
    value = item.get(field)
    return value if value is None or isinstance(value, str) else part.document.place(item, field).text


def _check_texts(item: dict[str, Any], part: Part) -> None:
    for field in _TEXT_FIELDS:
        oddity = part.document.odd.get((id(item), field))
        if oddity is not None:
            raw = item[field]
            text = f"{field} must be text, but {taken_for(raw, oddity)}"
            part.at(field).add(rule.WRONG_TYPE, text, item, field)


def _check_absent(item: dict[str, Any], entity: Entity | None, part: Part) -> None:
    for field in ("values", "profile", "unset", "expires"):
        if field in item:
            text = f"{of_entity(entity)}has state: absent, which does not allow {field}; remove one of the two"
            part.at(field).add(rule.BAD_STATE, text, item, field, at_key=True)


_LOOKED_AT: Final = 20
_DECLARING: Final = frozenset({"values", "profile", "unset", "state"})


def misspells_any(item: dict[str, Any]) -> bool:
    """Whether one of the first fields of an entry is probably a misspelt one that declares something."""
    return any(misspells_field(field) for field in islice(item, _LOOKED_AT))


def misspells_field(field: str) -> bool:
    """Whether a field that is not one is probably one that declares something, or a quota key.

    >>> [misspells_field(field) for field in ("valeus", "values:{a", "producer_byte_rate", "values", "xyz")]
    [True, True, True, False, False]
    """
    fields = load_schema("quotas")["definitions"]["entry"]["properties"]
    if field in fields:
        return False
    return field in QUOTA_KEYS or bool({nearest(field, fields), glued_key(field, fields)} & _DECLARING)


def report_misplaced(item: dict[str, Any], part: Part) -> None:
    """Report quota keys that are fields of an entry because they are not indented below `values`."""
    for key in item:
        if key in QUOTA_KEYS:
            text = f"{key} is a quota key, not a field of an entry; write it below values, and indent it further"
            part.at(key).add(rule.UNKNOWN_FIELD, text, item, key, at_key=True)
            if item.get("values") is None:
                part.report.covered.add((*part.path, "values"))


_FIELDS: Final = frozenset({"match", "values", "owner", "reason"})

_TYPES: Final = frozenset({(USER,), (CLIENT_ID,), (USER, CLIENT_ID), (CLIENT_ID, USER)})
"""The types of a match, as written. Names of ips have rules of their own."""

_NAME: Final = regex(
    r"(?!User:|(?i:default)$|(?:user|client-id|ip)=)"
    r"[A-Za-z0-9._@:/=,-](?:[A-Za-z0-9._@:/=, -]*[A-Za-z0-9._@:/=,-])?"
).fullmatch
"""A name without any problem."""


class PlainItemReader:
    """The fast path for plain items, which nearly all are: one name per entity type, values, an owner, a reason.

    `EntryReader` reads all other items and would return the same for plain ones in three times the time. It reads items
    of files that match their schema and contain no ambiguous scalars. Nothing is reported here, so locations are not
    tracked, and equal values are read once.
    """

    def __init__(self, share: Callable[[Values], Values]) -> None:
        """Make a reader.

        Args:
            share: Returns one object for equal values.
        """
        self._share = share
        self._known: dict[tuple[Any, ...], tuple[Values, tuple[str, ...]]] = {}

    def read(self, item: dict[str, Any], document: Document, file: LayerFile, position: Position) -> Entry | None:
        """Return the entry of an item; `None` if the item is not plain, or wrong."""
        match, written = item.get("match"), item.get("values")
        if type(match) is not dict or type(written) is not dict or not written or not _FIELDS.issuperset(item):
            return None
        types, places = tuple(match), document.keys.get(id(written))
        if types not in _TYPES or places is None:
            return None
        parts: list[tuple[str, str | None]] = []
        for entity_type, name in match.items():
            if name == DEFAULT_WORD:
                parts.append((entity_type, None))
            elif type(name) is str and _NAME(name):
                parts.append((entity_type, name))
            else:
                return None
        key = (types, *written.items())
        known = self._known.get(key)
        if known is None:
            read = _read_values(written, types)
            if read is None:
                return None
            known = self._known[key] = self._share(read), bare_keys(written, read)
        return Entry(
            entity=Entity.of(parts),
            values=known[0],
            file=file,
            position=position,
            places=tuple(places),
            owner=item.get("owner"),
            reason=item.get("reason"),
            bare=known[1],
        )


def _read_values(written: dict[str, Any], types: tuple[str, ...]) -> Values | None:
    values: dict[str, float] = {}
    for key, raw in written.items():
        try:
            values[key] = parse_fitting(key, raw, types)
        except (KeyError, ValueError):
            return None
    return values
