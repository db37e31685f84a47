"""Entries that are rows of a table, one per entity and quota key: checked as the items of a file are.

The rows of an entity must agree. Where they do not, nothing of it is declared and the problem says so: what a row
means never depends on which other one is read first, and a value without a key is never taken for a deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.check.finding_list import FindingList
from quotaform.desired.declaration import EntryReader
from quotaform.desired.loaded_file import LoadedFile
from quotaform.desired.report import FileReport
from quotaform.desired.shape import explain_shape, has_shape
from quotaform.desired.yaml.document import StopReadingError, plain_document
from quotaform.model.address import parse_address
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.entry import Entry, LayerFile
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import listed, quote
from quotaform.model.units import readable, spell_value

TEXT_COLUMNS: Final = ("owner", "reason", "expires")
"""The columns in which all rows of an entity say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """A row: a quota key of an entity, or, without a key, that the entity must not exist.

    Attributes:
        entity_key: The entity, as `Entity.address` spells it.
        key: The quota key.
        value: Its value; a text is read as in files.
        owner: As in files.
        reason: As in files.
        expires: As in files. A row without a key may have it, too, if the day has come: so the entry of a file that has
            expired is in a table.
    """

    entity_key: str | None = None
    key: str | None = None
    value: float | str | None = None
    owner: str | None = None
    reason: str | None = None
    expires: str | None = None


def load_rows(rows: Iterable[EntryRow], file: LayerFile, today: date) -> LoadedFile:
    """Return what rows declare, in whatever order they are; never raises, whatever they contain.

    Args:
        rows: The rows of one cluster.
        file: What messages call the table, as a file.
        today: The day (UTC).
    """
    entries: list[Entry] = []
    problems = FindingList()
    by_entity, bad = _by_entity(rows)
    problems.extend(bad)
    reader = EntryReader({})
    for entity, group in sorted(by_entity.items(), key=lambda item: item[0].address):
        if problems.is_full:
            break
        found = list(_contradictions(entity, group, today))
        if not found:
            found = _read(_item(entity, group), reader, file, entries)
        problems.extend(_about(finding, entity) for finding in found)
    here = Location(file.name)
    return LoadedFile(*file, entries, [replace(each, location=here) for each in problems.all()])


def _by_entity(rows: Iterable[EntryRow]) -> tuple[dict[Entity, list[EntryRow]], list[Finding]]:
    """Return the rows of each entity, however they spell it, and what is wrong with their `entity_key`."""
    by_text: dict[str | None, list[EntryRow]] = {}
    for row in rows:
        by_text.setdefault(row.entity_key, []).append(row)
    by_entity: dict[Entity, list[EntryRow]] = {}
    problems: list[Finding] = []
    if nameless := by_text.pop(None, None):
        keys = listed(sorted({"null" if row.key is None else quote(row.key) for row in nameless}))
        text = f"{_counted(len(nameless))} without entity_key (key: {keys}); add the entity, or remove the row"
        problems.append(rule.TABLE_ROW.finding(text))
    for address, group in sorted(by_text.items(), key=lambda item: item[0] or ""):
        try:
            by_entity.setdefault(parse_address(address or ""), []).extend(group)
        except ValueError as error:
            problems.append(rule.BAD_MATCH.finding(f"entity_key: {error}", address=address))
    return by_entity, problems


def _contradictions(entity: Entity, rows: Sequence[EntryRow], today: date) -> Iterator[Finding]:
    """Yield what rows of one entity leave open, so that the answer would depend on their order, or be a deletion."""
    bare = [row for row in rows if row.key is None]
    for text in sorted({_shown(row.value) for row in bare if row.value is not None}):
        yield rule.TABLE_ROW.finding(f"a row has the value {text} and no key; add the key, or remove the row")
    tombstones = [row for row in bare if row.value is None]
    if tombstones and len(bare) < len(rows):
        yield rule.TABLE_ROW.finding(
            f"of its {len(rows)} rows {len(tombstones)} have no key, which means that the entity must not exist, and "
            f"{len(rows) - len(bare)} have one; remove the former or the latter"
        )
    elif len(tombstones) > 1:
        yield rule.TABLE_ROW.finding(f"there are {len(tombstones)} rows without a key; keep one of them")
    elif tombstones and not _has_come(expires := tombstones[0].expires, today):
        text = f"a row without a key means that the entity must not exist, but it expires on {quote(expires or '')}"
        yield rule.TABLE_ROW.finding(f"{text}; add the key and its value, or remove expires")
    times = Counter(row.key for row in rows if row.key is not None)
    for key, count in sorted(times.items()):
        if count > 1:
            values = listed(sorted({_shown(row.value) for row in rows if row.key == key}))
            text = f"{quote(key)} is in {count} rows (value: {values}); keep one of them"
            yield rule.TABLE_ROW.finding(text, key=key)
    for column in TEXT_COLUMNS:
        texts = {getattr(row, column) for row in rows}
        if len(texts) > 1:
            shown = listed(sorted("null" if text is None else quote(text) for text in texts))
            yield rule.TABLE_ROW.finding(f"the rows differ in {column} ({shown}); give all of them the same")


def _item(entity: Entity, rows: Sequence[EntryRow]) -> dict[str, Any]:
    """Return rows of one entity that agree as an item of a file."""
    names = {
        entity_type: {"name": name} if name == DEFAULT_WORD else DEFAULT_WORD if name is None else name
        for entity_type, name in entity.parts
    }
    item: dict[str, Any] = {"match": names}
    is_absent = rows[0].key is None
    if is_absent:
        item["state"] = "absent"
    else:
        keyed = sorted((row.key or "", row.value) for row in rows)
        item["values"] = {key: _written(key, value) for key, value in keyed}
    for column in TEXT_COLUMNS:
        text = getattr(rows[0], column)
        if text is not None and not (is_absent and column == "expires"):
            item[column] = text
    return item


def _read(item: dict[str, Any], reader: EntryReader, file: LayerFile, entries: list[Entry]) -> list[Finding]:
    """Add the entry of an item, and return its problems and warnings."""
    items = [item]
    document = plain_document(file.name, {"quotas": items})
    report = FileReport(document)
    is_good = has_shape("quotas", document)
    with suppress(StopReadingError):
        reader.read(items, report, file, entries, is_good=is_good)
        if not is_good:
            explain_shape("quotas", report)
    return report.findings.all()


def _about(finding: Finding, entity: Entity) -> Finding:
    """Return a finding whose message names the entity."""
    address = entity.address
    has_name = finding.message.startswith(address)
    message = finding.message if has_name else f"{address}: {finding.message}"
    return replace(finding, message=message, address=address)


def _has_come(expires: str | None, today: date) -> bool:
    """Whether a day has come; what is none never does."""
    if expires is None:
        return True
    with suppress(ValueError):
        return date.fromisoformat(expires) <= today
    return False


def _written(key: str, value: float | str | None) -> str | None:
    """Return a value as a file has it."""
    if not isinstance(value, float):
        return value
    known = QUOTA_KEYS.get(key)
    return (None if known is None else spell_value(known, value)) or repr(value)


def _shown(value: float | str | None) -> str:
    if value is None:
        return "null"
    return readable(value) if isinstance(value, float) else quote(value)


def _counted(rows: int) -> str:
    return "there is a row" if rows == 1 else f"there are {rows:,} rows"
