"""Bringing the quotas of a cluster under management: live quotas to files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain, count
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.app.actual import read_actual
from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.repository.repository import Repository
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.check.live import check_live
from quotaform.core.check.writable import writable_values
from quotaform.core.result import Import
from quotaform.desired.cluster_choice import choose_cluster
from quotaform.desired.loader import load_files
from quotaform.desired.writer import SCHEMA, render_quotas
from quotaform.model.entity import Entity
from quotaform.model.entry import Entry
from quotaform.model.finding import by_weight
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values, same_values

if TYPE_CHECKING:
    from quotaform.desired.config import Config

_ALL: Final = "imported"
_MAX_WORD: Final = 60
"""How much of a name becomes a file's; file systems allow 255 bytes."""
_MAX_ENTITIES: Final = 50_000
"""How many entities one file gets; it may declare four times as many."""


def import_cluster(
    repository: Repository,
    config: Config,
    cluster_name: str,
    gateway: Gateway,
    *,
    is_split: bool = False,
    is_own: bool | None = None,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
) -> Import:
    """Write down the live quotas that no file declares yet.

    A plan made right after it is empty: what files can express is declared as it is, and the rest is left
    alone and listed as a finding.

    Args:
        repository: Where the files are to go; what is there already stays as it is.
        cluster_name: Whose quotas they are.
        is_split: One file per group of names, else one file.
        is_own: Whether the files go to the folder of the cluster, else to the common ones; by default with several
            clusters.

    Raises:
        InvalidFilesError: The files that are there are invalid.
        UsageError: quotaform.yaml names several clusters and not this one, whose folder would mean nothing.
        ClusterError: The cluster could not be read.
    """
    layout = repository.layout(config)
    loaded = load_files(layout, config.profiles, today(clock), config.scope)
    declared = loaded.desired(cluster_name) if layout.tree.has_files else {}
    actual = read_actual(gateway, declared, clock=clock, progress=progress)
    todo = {entity: values for entity, values in actual.items() if entity not in declared}
    inside = {entity: values for entity, values in todo.items() if config.scope.contains(entity)}
    able = {entity: values for entity, values in inside.items() if writable_values(entity, values)}
    # With several clusters the quotas of one are its own: in the common files they would be everybody's.
    is_own = len(config.clusters) > 1 if is_own is None else is_own
    folder = repository.directory / choose_cluster(config, cluster_name).name if is_own else repository.directory
    files: dict[str, str] = {}
    counts: dict[str, int] = {}
    groups = list(_groups(able, is_split))
    if not groups and not layout.tree.has_files:
        groups = [(_ALL, {})]
    for stem, group in groups:
        path = str(_free(folder, stem, files))
        files[path], _ = render_quotas(group, schema=f"../{SCHEMA}" if is_own else SCHEMA)
        counts[path] = len(group)
    differing = [entry for entity, entry in declared.items() if not _is_in_sync(entry, actual.get(entity, {}))]
    return Import(
        files=files,
        counts=counts,
        declared=len(actual) - len(todo),
        out_of_scope=len(todo) - len(inside),
        left_out=len(inside) - len(able),
        differing=len(differing),
        differing_from_common=sum(_is_common(entry) for entry in differing) if is_own else 0,
        findings=tuple(by_weight(check_live(actual))),
    )


def _is_in_sync(entry: Entry, live: Values) -> bool:
    return same_values(entry.values, {key: value for key, value in live.items() if key in QUOTA_KEYS})


def _is_common(entry: Entry) -> bool:
    return entry.file is not None and entry.file.layer is None


def _free(folder: Path, stem: str, taken: Collection[str]) -> Path:
    """Return the first name that no file has yet, nor a link to nowhere: what is there stays as it is."""
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    paths = (folder / f"{name}.yaml" for name in names)
    return next(path for path in paths if str(path) not in taken and not lexists(path))


def _groups(quotas: dict[Entity, Values], is_split: bool) -> Iterator[tuple[str, dict[Entity, Values]]]:
    """Yield the stem of a file and what goes into it; one stem may come several times."""
    groups: dict[str, dict[Entity, Values]] = {}
    for entity, values in quotas.items():
        groups.setdefault(_stem(entity) if is_split else _ALL, {})[entity] = values
    for stem, group in sorted(groups.items()):
        entities = sorted(group, key=lambda entity: entity.address)
        for begin in range(0, len(entities), _MAX_ENTITIES):
            yield stem, {entity: group[entity] for entity in entities[begin : begin + _MAX_ENTITIES]}


def _stem(entity: Entity) -> str:
    """Return the file that an entity belongs to: its name's first word, or what kind of default it is."""
    name = next((name for _, name in entity.parts if name is not None), None)
    if name is None:
        return "defaults"
    if entity.types == ("ip",):
        return "ips"
    word = ""
    for character in name:
        if not (character.isascii() and character.isalnum()):
            break
        word += character.lower()
    word = word[:_MAX_WORD]
    return f"imported-{word}" if word else "imported-other"
