"""quotas.d -> what the files say: read, check, expand, merge.

`load_file` is pure per file, so that files can be read anywhere and in any order; `assemble` puts together
what they say about one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date

from quotaform.collector import paused_collector
from quotaform.core.check import rule
from quotaform.core.scope import EVERYTHING, Scope
from quotaform.desired.declaration import STATE_ABSENT, Declaration, Profiles, Reader
from quotaform.desired.report import Report, by_location
from quotaform.desired.schema.explain import explain_shape, has_shape
from quotaform.desired.tree import Source, decode, read_sources
from quotaform.desired.yaml.document import UnclearError
from quotaform.desired.yaml.reader import read_document
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.finding import Finding, Severity

__all__ = [
    "LoadedFile",
    "Source",
    "assemble",
    "check",
    "conclude",
    "load",
    "load_file",
    "read_sources",
    "require_valid",
]


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What one file says.

    Attributes:
        name: The file in messages.
        layer: The cluster that it is for; `None` for all.
        declarations: What it says about each entity, in the order of the file.
        problems: What is wrong with it, and what is worth a warning.
    """

    name: str
    layer: str | None
    declarations: list[Declaration]
    problems: list[Finding]


def load(sources: Iterable[Source], profiles: Profiles, today: date, scope: Scope = EVERYTHING) -> Desired:
    """Read what files say.

    Args:
        sources: The common files and those of at most one cluster.
        profiles: The profiles of quotaform.yaml.
        today: The day (UTC) on which entries may have expired.
        scope: The entities that the files may speak of.

    Raises:
        InvalidFilesError: Anything is wrong in any of them; all problems at once.
    """
    return require_valid(*check(sources, profiles, today, scope))


def check(
    sources: Iterable[Source], profiles: Profiles, today: date, scope: Scope = EVERYTHING
) -> tuple[Desired, list[Finding]]:
    """Read what files say, and return it with all problems, warnings and notes, sorted by place.

    What is returned with a problem is what can be made of the rest.
    """
    reader = Reader(profiles)
    with paused_collector():
        return conclude([_load_file(source, reader) for source in sources], today, scope)


def conclude(files: Sequence[LoadedFile], today: date, scope: Scope = EVERYTHING) -> tuple[Desired, list[Finding]]:
    """Merge what files say, and return it with what is to be said of them, sorted by place."""
    desired, problems = assemble(files, today)
    problems += [_out_of_scope(entry) for entity, entry in desired.items() if not scope.contains(entity)]
    return desired, by_location([*(problem for file in files for problem in file.problems), *problems])


def _out_of_scope(entry: Entry) -> Finding:
    return rule.OUT_OF_SCOPE.finding(
        f"{entry.entity.address} is declared here and not in the scope of quotaform.yaml; remove one of them",
        address=entry.entity.address,
        location=entry.location,
    )


def require_valid(desired: Desired, findings: Iterable[Finding]) -> Desired:
    """Return what files say when nothing is wrong with them.

    Raises:
        InvalidFilesError: Something is; all problems at once.
    """
    problems = [finding for finding in findings if finding.severity is Severity.ERROR]
    if problems:
        raise InvalidFilesError(problems)
    return desired


def load_file(source: Source, profiles: Profiles) -> LoadedFile:
    """Read one file; never raises for what is in it."""
    with paused_collector():
        return _load_file(source, Reader(profiles))


def _load_file(source: Source, reader: Reader) -> LoadedFile:
    text = decode(source)
    if isinstance(text, Finding):
        return LoadedFile(source.name, source.layer, [], [text])
    with suppress(UnclearError):
        return LoadedFile(source.name, source.layer, *_read(source.name, text, reader, detailed=False))
    return LoadedFile(source.name, source.layer, *_read(source.name, text, reader, detailed=True))


def _read(name: str, text: str, reader: Reader, *, detailed: bool) -> tuple[list[Declaration], list[Finding]]:
    document = read_document(name, text, detailed=detailed)
    root = document.root
    if root is None:
        return [], document.problems
    is_good = has_shape("quotas", document)
    if not is_good and not detailed:
        raise UnclearError
    report = Report(document)
    items = root.get("quotas") if isinstance(root, dict) else None
    declarations = reader.read(items, report) if isinstance(items, list) else []
    shape = [] if is_good else explain_shape("quotas", report)
    return declarations, [*document.problems, *report.findings, *shape]


def assemble(files: Iterable[LoadedFile], today: date) -> tuple[Desired, list[Finding]]:
    """Merge what files say: each entity once per layer, the cluster's layer over the common one, key by key.

    Args:
        files: The common files and those of at most one cluster.
        today: The day (UTC) on which entries may have expired.
    """
    layers: dict[str | None, dict[Entity, Declaration]] = {None: {}}
    problems: list[Finding] = []
    for file in files:
        layer = layers.setdefault(file.layer, {})
        for declaration in file.declarations:
            first = layer.setdefault(declaration.entry.entity, declaration)
            if first is not declaration:
                problems.append(_duplicate(declaration.entry, first.entry))
    desired: dict[Entity, Entry] = {}
    for layer in layers.values():
        for entity, (entry, expires) in layer.items():
            if expires is not None and expires <= today:
                entry = replace(entry, values={}, absent=f"expired {expires.isoformat()}")
                problems.append(_expired(entry))
            below = desired.get(entity)
            desired[entity] = entry if below is None else _merge(below, entry)
    return desired, problems


def _merge(below: Entry, above: Entry) -> Entry:
    return replace(
        above,
        values={**below.values, **above.values} if above.absent is None else {},
        owner=below.owner if above.owner is None else above.owner,
        reason=below.reason if above.reason is None else above.reason,
    )


def _duplicate(entry: Entry, first: Entry) -> Finding:
    address = entry.entity.address
    text = f"{address} is declared twice; it is also at {first.location}. Keep one of the two"
    return rule.DUPLICATE_ENTITY.finding(text, address=address, location=entry.location)


def _expired(entry: Entry) -> Finding:
    address = entry.entity.address
    text = f"{address} has {entry.absent}, so it counts as {STATE_ABSENT}; remove it when it is gone"
    return rule.EXPIRED.finding(text, address=address, location=entry.location)
