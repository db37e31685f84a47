"""A snapshot: its file, which `quotaform snapshot` writes, and the gateway that reads it instead of a cluster.

The file contains everything that a describe returned, one entity per line, sorted by address, so two snapshots can be
compared line by line. Its schema is `schemas/snapshot.schema.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from json import JSONDecodeError, dumps, loads
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from quotaform.cluster.gateway import BeforeSend, BrokerConfig, Gateway, do_nothing
from quotaform.model import rule
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ClusterError, FileReadError, InvalidFilesError, NotTextError, UnsupportedError
from quotaform.model.filter import EVERYTHING, EntityFilter, select
from quotaform.model.finding import Finding, Location
from quotaform.model.finding_list import MAX_PROBLEMS
from quotaform.model.quotas import Quotas, Snapshot, SnapshotFile
from quotaform.model.records.document import (
    MOST_VALUES,
    SNAPSHOT,
    ConstantError,
    KindError,
    VersionError,
    document_lines,
    envelope,
    has_too_many_values,
    item_lines,
    mark_repeated,
    refuse_constant,
    require_kind,
)
from quotaform.model.records.field import dump_values
from quotaform.model.rule import FindingRule
from quotaform.model.text import explain_json_error, line_and_column
from quotaform.system.files import SNAPSHOT_LIMIT, read_text


class SnapshotGateway(Gateway):
    """A snapshot, which can be read, and nothing else."""

    def __init__(self, snapshot: Snapshot, *, name: str | None = None, path: str = "") -> None:
        """Make a gateway."""
        self.name = name or snapshot.cluster_name
        self.snapshot = SnapshotFile(path, snapshot.captured_at)
        self._snapshot = snapshot

    def cluster_id(self) -> str:
        """Return the id of the cluster that the snapshot was taken from."""
        return self._snapshot.cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Return the snapshot's quotas that a filter selects."""
        return select(self._snapshot.quotas, entity_filter)

    def broker_config(self, name: str) -> BrokerConfig:
        """Fail, because a snapshot contains only quotas."""
        raise UnsupportedError(f"{self.name} is a snapshot, which contains no configuration of brokers.")

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> NoReturn:
        """Refuse."""
        raise ClusterError(f"{self.name} is a snapshot, which cannot be changed; choose a running cluster.")


T = TypeVar("T", str, list[Any], dict[str, Any])

_WORDS: Final = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


def dump_snapshot(snapshot: Snapshot) -> str:
    """Return a snapshot as text; equal snapshots give equal text."""
    rows = sorted((entity.address, entity, values) for entity, values in snapshot.quotas.items() if values)
    fields = {
        "cluster": {"name": snapshot.cluster_name, "id": snapshot.cluster_id},
        "captured_at": snapshot.captured_at,
        "quotas": ({"entity": entity.names, "values": dump_values(values)} for _, entity, values in rows),
    }
    return "".join(document_lines(envelope(SNAPSHOT, fields).items(), {"quotas"}, _json_line))


def _json_line(content: object) -> str:
    """Return a value as JSON on one line, everything that does not print escaped."""
    text = dumps(content, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else dumps(c)[1:-1] for c in text)


def read_snapshot(path: Path, *, within: Path | None = None) -> Snapshot:
    """Read a snapshot file.

    `within` is the folder that it must lie in; `None` for one that the operator names. Raises `InvalidFilesError` if it
    cannot be read or is no snapshot.
    """
    try:
        return load_snapshot(read_text(path, SNAPSHOT_LIMIT, within=within), str(path))
    except NotTextError as error:
        problem = f"this is not a snapshot: {error.reason}"
    except FileReadError as error:
        problem = f"it cannot be read: {error.reason}"
        if error.is_missing:
            problem = "there is no such file; quotaform snapshot writes one"
    raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=Location(str(path)))])


def load_snapshot(text: str, file: str) -> Snapshot:
    """Read a snapshot.

    `file` is its name for messages. Raises `InvalidFilesError` if it is no snapshot that this version reads; with all
    its problems, each with its line.
    """
    reader = _Reader(text, file)
    snapshot = reader.read()
    if reader.problems:
        raise InvalidFilesError(reader.problems)
    return snapshot


class _Reader:
    """Reads one snapshot and gathers its problems."""

    def __init__(self, text: str, file: str) -> None:
        self.problems: list[Finding] = []
        self._text = text
        self._file = file
        self._lines: list[int] | None = None

    def read(self) -> Snapshot:
        document = self._parse()
        self._check_format(document)
        cluster = self._field(document, "cluster", dict, {"name": "", "id": ""})
        return Snapshot(
            cluster_name=self._field(cluster, "name", str, "", "cluster.name"),
            cluster_id=self._field(cluster, "id", str, "", "cluster.id"),
            captured_at=self._field(document, "captured_at", str, ""),
            quotas=self._quotas(self._field(document, "quotas", list, [])),
        )

    def _parse(self) -> dict[str, Any]:
        """Return the top object; what is no JSON object ends the reading."""
        if has_too_many_values(self._text):
            self._stop(f"it contains more than the limit of {MOST_VALUES:,} values")
        try:
            document = loads(self._text, object_pairs_hook=mark_repeated, parse_constant=refuse_constant)
        except JSONDecodeError as error:
            text = self._text.strip()
            at, problem = explain_json_error(error)
            if not text or (text.startswith("{") and (error.pos >= len(text) or not text.endswith("}"))):
                problem = "the file is truncated; take the snapshot again"
            else:
                problem = f"this is not JSON: {problem}"
            self._stop(problem, *line_and_column(self._text, at))
        except RecursionError:
            self._stop("this is nested too deeply to be a snapshot")
        except ConstantError as error:
            self._stop(f'{error} is not JSON; write it as the string "{error}"')
        except ValueError:
            self._stop("a number in this file has too many digits to be a quota value")
        if not isinstance(document, dict):
            self._stop("this is not a snapshot: it does not contain a JSON object")
        return document

    def _check_format(self, document: dict[str, Any]) -> None:
        """End the reading unless this is a snapshot whose meaning is known."""
        try:
            require_kind(document, SNAPSHOT)
        except KindError:
            self._stop(f'this is not a snapshot: its "kind" is not "{SNAPSHOT.kind}"; quotaform snapshot writes one')
        except VersionError as error:
            found = "is missing or not a string" if error.version is None else f"is {error.version[:20]!r}"
            self._stop(
                f"the snapshot's format_version {found}; this version of quotaform reads {SNAPSHOT.version} and later"
                " ones of the same major version"
            )

    def _field(self, parent: dict[str, Any], name: str, kind: type[T], default: T, path: str = "") -> T:
        value = parent.get(name)
        if isinstance(value, kind):
            return value
        what = {dict: "an object", list: "a list", str: "a string"}[kind]
        self._problem(rule.SNAPSHOT, f"{path or name} must be {what}")
        return default

    def _quotas(self, items: list[Any]) -> dict[Entity, dict[str, float]]:
        quotas: dict[Entity, dict[str, float]] = {}
        first: dict[Entity, int] = {}
        for index, item in enumerate(items):
            entity = self._entity(index, item)
            values = self._values(index, item)
            if entity is None or values is None:
                continue
            if entity in quotas:
                where = f"line {self._line_of(first[entity])}"
                self._problem(rule.DUPLICATE_ENTITY, f"{entity.address} appears twice, first in {where}", index)
                continue
            quotas[entity] = values
            first[entity] = index
        return quotas

    def _entity(self, index: int, item: Any) -> Entity | None:
        names = item.get("entity") if isinstance(item, dict) else None
        if not isinstance(names, dict) or not names:
            self._problem(
                rule.SNAPSHOT, "an item of quotas must have an entity: an object of type to name or null", index
            )
            return None
        self._check_repeated(names, index)
        if not all(name is None or isinstance(name, str) for name in names.values()):
            self._problem(rule.SNAPSHOT, "a name in an entity must be a string, or null for the default", index)
            return None
        entity = Entity(names)
        if any("\ud800" <= letter <= "\udfff" for part in entity.parts for text in part for letter in text or ""):
            self._problem(
                rule.SNAPSHOT, f"{entity.address} contains a lone surrogate, which no broker can store", index
            )
            return None
        return entity

    def _values(self, index: int, item: Any) -> dict[str, float] | None:
        raw = item.get("values") if isinstance(item, dict) else None
        if not isinstance(raw, dict) or not raw:
            self._problem(rule.SNAPSHOT, "an item of quotas must have values: an object of quota key to number", index)
            return None
        self._check_repeated(raw, index)
        values = {}
        for key, number in raw.items():
            value = _double(number)
            if value is None:
                self._problem(
                    rule.SNAPSHOT,
                    f'{spell_name(key)} must be a number that a double can hold, or "NaN", "Infinity"',
                    index,
                )
                return None
            values[key] = value
        return values

    def _check_repeated(self, content: dict[str, Any], index: int) -> None:
        for name in getattr(content, "repeated", ()):
            self._problem(rule.SNAPSHOT, f"{spell_name(name)} appears twice", index)

    def _problem(self, rule: FindingRule, message: str, index: int | None = None) -> None:
        line = 0 if index is None else self._line_of(index)
        self.problems.append(rule.finding(message, location=Location(self._file, line)))
        if len(self.problems) > MAX_PROBLEMS:
            self._stop("and more: only the first problems are shown; take the snapshot again")

    def _stop(self, message: str, line: int = 0, column: int = 0) -> NoReturn:
        self.problems.append(rule.SNAPSHOT.finding(message, location=Location(self._file, line, column if line else 0)))
        raise InvalidFilesError(self.problems)

    def _line_of(self, index: int) -> int:
        """Return the line on which an item of quotas begins; worked out for the first problem and not before."""
        if self._lines is None:
            self._lines = list(item_lines(self._text, "quotas"))
        return self._lines[index] if index < len(self._lines) else 0


def _double(number: object) -> float | None:
    """Return a number of the file as the double that it stands for, or `None` if it stands for none."""
    if isinstance(number, str):
        return _WORDS.get(number)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if isfinite(value) and value == number else None
