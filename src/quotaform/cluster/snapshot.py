"""A snapshot: its file, which `quotaform snapshot` writes, and the gateway that reads it instead of a cluster.

The file contains everything that a describe returned, one entity per line, sorted by address, so two snapshots can be
compared line by line. Its schema is `schemas/snapshot.schema.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from json import JSONDecodeError, dumps, loads
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, Final, NoReturn

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

    `file` is its name for messages. Raises `InvalidFilesError` if it is no snapshot that this version reads; with the
    first problem of each item, and its line.
    """
    document = _parse(text, file)
    cluster = document.get("cluster")
    fields: dict[str, Any] = {name: document.get(name) for name in ("cluster", "captured_at", "quotas")}
    if isinstance(cluster, dict):
        fields |= {"cluster.name": cluster.get("name"), "cluster.id": cluster.get("id")}
    problems = []
    for name, value in fields.items():
        kind, what = _FIELDS.get(name, (str, "a string"))
        if not isinstance(value, kind):
            problems.append(rule.SNAPSHOT.finding(f"{name} must be {what}", location=Location(file)))
    quotas, more = _read_items(fields["quotas"] if isinstance(fields["quotas"], list) else (), text, file)
    problems += more
    if len(problems) > MAX_PROBLEMS:
        last = "and more: only the first problems are shown; take the snapshot again"
        problems = [*problems[:MAX_PROBLEMS], rule.SNAPSHOT.finding(last, location=Location(file))]
    if problems:
        raise InvalidFilesError(problems)
    return Snapshot(
        cluster_name=fields["cluster.name"],
        cluster_id=fields["cluster.id"],
        captured_at=fields["captured_at"],
        quotas=quotas,
    )


_FIELDS: Final[dict[str, tuple[type, str]]] = {"cluster": (dict, "an object"), "quotas": (list, "a list")}
"""What the fields must be that are no strings."""


def _read_items(items: Sequence[Any], text: str, file: str) -> tuple[Quotas, list[Finding]]:
    """Return what the items of a text declare, and the first problem of each that is wrong, with its line."""
    quotas: dict[Entity, dict[str, float]] = {}
    first: dict[Entity, int] = {}
    problems: list[Finding] = []
    lines: list[int] = []
    for index, item in enumerate(items):
        found_by, problem, earlier = rule.SNAPSHOT, "", None
        try:
            entity, values = _read_item(item)
            earlier = first.setdefault(entity, index)
            if earlier == index:
                quotas[entity] = values
                continue
            found_by, problem = rule.DUPLICATE_ENTITY, f"{entity.address} appears twice"
        except ValueError as error:
            problem = str(error)
        # Worked out for the first problem and not before.
        lines = lines or [*item_lines(text, "quotas"), *[0] * len(items)]
        problem += "" if earlier is None else f", first in line {lines[earlier]}"
        problems.append(found_by.finding(problem, location=Location(file, lines[index])))
        if len(problems) > MAX_PROBLEMS:
            break
    return quotas, problems


def _parse(text: str, file: str) -> dict[str, Any]:
    """Return the object of a snapshot whose meaning is known. Raises `InvalidFilesError`."""
    place = Location(file)
    problem = f"it contains more than the limit of {MOST_VALUES:,} values"
    try:
        if not has_too_many_values(text):
            return require_kind(loads(text, object_pairs_hook=mark_repeated, parse_constant=refuse_constant), SNAPSHOT)
    except JSONDecodeError as error:
        stripped = text.strip()
        at, problem = explain_json_error(error)
        place = Location(file, *line_and_column(text, at))
        if not stripped or (stripped[0] == "{" and (error.pos >= len(stripped) or stripped[-1] != "}")):
            problem = "the file is truncated; take the snapshot again"
        else:
            problem = f"this is not JSON: {problem}"
    except RecursionError:
        problem = "this is nested too deeply to be a snapshot"
    except ConstantError as error:
        problem = f'{error} is not JSON; write it as the string "{error}"'
    except KindError:
        problem = f'this is not a snapshot: its "kind" is not "{SNAPSHOT.kind}"; quotaform snapshot writes one'
    except VersionError as error:
        found = "is missing or not a string" if error.version is None else f"is {error.version[:20]!r}"
        problem = (
            f"the snapshot's format_version {found}; this version of quotaform reads {SNAPSHOT.version} and later"
            " ones of the same major version"
        )
    except ValueError:
        problem = "a number in this file has too many digits to be a quota value"
    raise InvalidFilesError([rule.SNAPSHOT.finding(problem, location=place)])


def _read_item(item: Any) -> tuple[Entity, dict[str, float]]:
    """Return an entity and its values. Raises `ValueError`, whose message says what is wrong with the item."""
    names, values = (item.get("entity"), item.get("values")) if isinstance(item, dict) else (None, None)
    if not isinstance(names, dict) or not names:
        raise ValueError("an item of quotas must have an entity: an object of type to name or null")
    if not isinstance(values, dict) or not values:
        raise ValueError("an item of quotas must have values: an object of quota key to number")
    for repeated in (*getattr(names, "repeated", ()), *getattr(values, "repeated", ())):
        raise ValueError(f"{spell_name(repeated)} appears twice")
    if not all(name is None or isinstance(name, str) for name in names.values()):
        raise ValueError("a name in an entity must be a string, or null for the default")
    entity = Entity(names)
    if any("\ud800" <= letter <= "\udfff" for part in entity.parts for text in part for letter in text or ""):
        raise ValueError(f"{entity.address} contains a lone surrogate, which no broker can store")
    return entity, {key: _double(key, number) for key, number in values.items()}


def _double(key: str, number: object) -> float:
    """Return a number of the file as the double that it stands for. Raises `ValueError` if it stands for none."""
    if isinstance(number, str) and number in _WORDS:
        return _WORDS[number]
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        with suppress(OverflowError):
            if isfinite(value := float(number)) and value == number:
                return value
    raise ValueError(f'{spell_name(key)} must be a number that a double can hold, or "NaN", "Infinity"')
