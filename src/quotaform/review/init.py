"""Beginning: a new quota repository, and the live quotas of a cluster as files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import chain, count
from os.path import lexists
from pathlib import Path
from re import compile as regex
from shlex import quote as shell_word
from typing import Final

from msgspec import Struct

from quotaform.cluster.gateway import read_actual
from quotaform.desired.config import Cluster, Config, choose_cluster, read_config
from quotaform.desired.loader import LoadedFiles
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import SCHEMA, check_live, render_quotas, spell_scalar, writable_values
from quotaform.git import find_work_tree
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, QuotaformError, UsageError, as_usage_error
from quotaform.model.finding import by_severity
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quotas import Quotas, Values
from quotaform.model.records.schema import render_schema
from quotaform.model.server import parse_servers
from quotaform.model.text import inert, option_of
from quotaform.plan.difference import diff
from quotaform.report.format import schema_builder
from quotaform.repository.gateway import open_gateway
from quotaform.repository.repository import Repository
from quotaform.repository.revision import CONFIG_NAME, QUOTAS_NAME
from quotaform.review.report import Import, Initialization
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today
from quotaform.system.files import is_folder, is_within, read_text

CI_FILES: Final = {
    "github": {
        "github/quotas-plan.yml": ".github/workflows/quotas-plan.yml",
        "github/quotas-apply.yml": ".github/workflows/quotas-apply.yml",
        "github/quotas-drift.yml": ".github/workflows/quotas-drift.yml",
    },
    "gitlab": {"gitlab/quotaform.gitlab-ci.yml": ".gitlab-ci.yml"},
    "none": {},
}
"""CI system to template to where it goes in a repository."""

PROPERTIES_VARIABLE: Final = "QUOTAFORM_COMMAND_CONFIG"
"""The environment variable in which they give the path of the client properties."""

_ALL: Final = "imported"
_WORD: Final = regex("[A-Za-z0-9]{1,60}").match
"""How much of a name becomes a file's; file systems allow 255 bytes."""
_MAX_ENTITIES: Final = 50_000
"""How many entities one file gets; it may declare four times as many."""


def import_cluster(
    repository: Repository,
    config: Config,
    cluster_name: str,
    actual: Quotas,
    *,
    is_split: bool = False,
    is_own: bool | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Import:
    """Write down the live quotas, the `actual` ones, that no file declares yet.

    A plan made right after it is empty: what files can express is declared as it is, and the rest is left
    alone and listed as a finding.

    `is_split`: one file per group of names, else one file. `is_own`: whether the files go to the folder of the cluster,
    else to the common ones; by default with several clusters.

    Raises `InvalidFilesError` if the files that are there are invalid; `UsageError` if quotaform.yaml names several
    clusters and not this one, whose folder would mean nothing.
    """
    layout = repository.layout(config)
    loaded = LoadedFiles(layout, config.profiles, today(clock), config.scope)
    declared = loaded.desired(cluster_name) if layout.tree.has_files else {}
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
        # The first name that no file has yet, nor a link to nowhere: what is there stays as it is.
        names = chain([stem], (f"{stem}-{number}" for number in count(2)))
        paths = (str(folder / f"{name}.yaml") for name in names)
        path = next(path for path in paths if path not in files and not lexists(path))
        files[path], _ = render_quotas(group, schema=f"../{SCHEMA}" if is_own else SCHEMA)
        counts[path] = len(group)
    differing = [declared[entity] for entity in dict.fromkeys(change.entity for change in diff(declared, actual))]
    return Import(
        files=files,
        counts=counts,
        declared=len(actual) - len(todo),
        out_of_scope=len(todo) - len(inside),
        left_out=len(inside) - len(able),
        differing=len(differing),
        differing_from_common=sum(entry.location is not None and entry.layer is None for entry in differing)
        if is_own
        else 0,
        findings=tuple(by_severity(check_live(actual))),
    )


def _groups(quotas: dict[Entity, Values], is_split: bool) -> Iterator[tuple[str, dict[Entity, Values]]]:
    """Yield the stem of a file and what goes into it; one stem may come several times.

    It is the first word of a name, or what kind of default it is.
    """
    groups: dict[str, dict[Entity, Values]] = {}
    for entity, values in quotas.items():
        stem, name = _ALL, next((name for _, name in entity.parts if name is not None), None)
        if is_split and name is None:
            stem = "defaults"
        elif is_split and entity.types == ("ip",):
            stem = "ips"
        elif is_split and name is not None:
            word = _WORD(name)
            stem = f"imported-{word[0].lower() if word else 'other'}"
        groups.setdefault(stem, {})[entity] = values
    for stem, group in sorted(groups.items()):
        entities = sorted(group, key=lambda entity: entity.address)
        for begin in range(0, len(entities), _MAX_ENTITIES):
            yield stem, {entity: group[entity] for entity in entities[begin : begin + _MAX_ENTITIES]}


_IGNORE: Final = ".gitignore"
_IGNORED: Final = (".quotaform/", "/plan.json", "/plan.md", "/plans/", "/revert.json", "/receipt.json", "/audit.jsonl")
"""Receipts, audit logs and plans show what clusters hold, and belong to one work tree."""
_SCHEMAS: Final = ("config", "quotas")
_PROPERTIES_LINE: Final = f'command_config: "${{env:{PROPERTIES_VARIABLE}}}"'


class InitRequest(Struct, frozen=True, kw_only=True):
    """What a new repository is to hold."""

    directory: Path
    servers: str  # The bootstrap servers of its cluster, as the command line gives them
    command_config: Path | None  # The client properties file, if there is one
    cluster: str
    imports: bool  # Whether the live quotas are written
    ci: str  # The CI system to write files for: a key of `CI_FILES`


def make_repository(request: InitRequest, *, progress: Progress = no_progress) -> Initialization:
    """Return the files of a new repository, or of a further cluster of one; nothing is written.

    The quotas of a cluster go to its own folder, so that those of a further one do not clash with them. Without an
    import, a cluster that cannot be reached is no error: its id is not pinned then.

    Raises `UsageError` if the name or a server cannot be one; `QuotaformError` if there is any of the files, or the
    folder of a further cluster, or quotaform.yaml names the cluster already; `ClusterError` if the cluster cannot be
    read, and its quotas are to be imported; `InvalidFilesError` if the client properties are invalid.
    """
    directory = request.directory
    repository = Repository(directory=directory / QUOTAS_NAME, config_path=directory / CONFIG_NAME)
    known = repository.config().clusters if repository.has_config() else {}
    is_further = bool(known)
    if request.cluster in known:
        raise QuotaformError(
            f"{request.cluster} is already in {repository.config_path}, so nothing was written; quotaform import "
            f"{option_of('cluster')} {request.cluster} writes the quotas that no file declares yet"
        )
    if not is_further:
        require_nothing_there(directory, request.ci)
    cluster = require_cluster(request)
    folder = repository.directory / cluster.name
    is_there = is_further and lexists(folder)
    cluster_id, unknown_id, imported = None, None, None
    try:
        with open_gateway(cluster) as gateway:
            cluster_id = gateway.cluster_id()
            if request.imports and not is_there:
                config = repository.config() if is_further else Config()
                config = replace(config, clusters={**known, cluster.name: cluster})
                actual = read_actual(gateway, progress=progress)
                imported = import_cluster(repository, config, cluster.name, actual, is_own=True)
    except ClusterError as error:
        if request.imports and not is_there:
            raise
        unknown_id = str(error)
    config_text = _config_text(request, cluster, cluster_id)
    added = config_text.splitlines()[2:]
    if is_there:
        raise QuotaformError(
            f"{folder} exists already and is never overwritten, so nothing was written; if it holds the quotas of this "
            "cluster, add to clusters in quotaform.yaml:",
            *added,
        )
    made = imported.files if imported else {}
    notes = [] if unknown_id is None else [f"Warning: the cluster id is not pinned: {inert(unknown_id)}"]
    if not is_further:
        made, ignored = _new_files(request, cluster, config_text, imported)
        notes += [f".gitignore exists already; add {', '.join(ignored)}"] if ignored else []
    top = find_work_tree(repository.directory)
    workflows = [inert(path) for path in made if path.endswith(".yml")]
    if workflows and top is not None and top != Path(os.path.realpath(directory)):
        notes.append(
            f"Warning: CI reads workflows at the top of a git repository only, which is {inert(str(top))}; move them "
            f"there and adapt their paths, or make {inert(str(directory))} a repository of its own."
        )
    steps = [] if directory == Path() else [f"  cd {inert(shell_word(str(directory)))}"]
    steps += [] if top is not None else ["  git init"]
    if is_further:
        matrices = (path for paths in CI_FILES.values() for path in paths.values() if lexists(directory / path))
        steps += ["  add to clusters in quotaform.yaml:", *map(inert, added)]
        steps += (f"  add the cluster to each matrix in {inert(path)}" for path in matrices)
    has_ci, indent = request.ci != "none", "  "
    if has_ci and request.command_config is None and not is_further:
        text = "if the cluster requires authentication or TLS, add to it in quotaform.yaml"
        steps.append(f"  {text}: {_PROPERTIES_LINE}")
        indent = "    "
    if has_ci and (request.command_config is not None or not is_further):
        properties = str(request.command_config or "path/to/client.properties")
        for name, value in ((PROPERTIES_VARIABLE, properties), ("QUOTAFORM_ENV", PROPERTIES_VARIABLE)):
            steps.append(f"{indent}export {name}={inert(shell_word(value))}   # CI sets it")
    of_cluster = f" {option_of('cluster')} {cluster.name}" if is_further else ""
    steps += ["  quotaform validate", f"  quotaform plan{of_cluster}", "  git add . && git commit"]
    steps += (f"  follow the first lines of {path}" for path in workflows)
    return Initialization(files=made, imported=imported, notes=tuple(notes), steps=tuple(steps), is_further=is_further)


def _new_files(
    request: InitRequest, cluster: Cluster, config_text: str, imported: Import | None
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a new repository, and the lines that the `.gitignore` which is there lacks."""
    directory = request.directory
    contents = {CONFIG_NAME: config_text}
    if imported is None:
        contents[f"{QUOTAS_NAME}/quotas.yaml"] = render_quotas({})[0]
    others = {f"schemas/{name}.schema.json": render_schema(schema_builder(name)) for name in _SCHEMAS}
    for template, path in CI_FILES[request.ci].items():
        text = files(__package__).joinpath("template", template).read_text(encoding="utf-8")
        others[path] = text.replace("[prod-eu]", f"[{spell_scalar(cluster.name)}]")
    missing: list[str] = []
    if lexists(directory / _IGNORE):
        written = read_text(directory / _IGNORE, 1 << 20, within=directory).split("\n")
        known_lines = {line.strip().strip("/") for line in written}
        missing = [line for line in _IGNORED if line.strip("/") not in known_lines]
    else:
        others[_IGNORE] = "".join(f"{line}\n" for line in _IGNORED)
    before, after = ({str(directory / path): text for path, text in some.items()} for some in (contents, others))
    return before | dict(imported.files if imported else {}) | after, missing


def require_nothing_there(directory: Path, ci: str) -> None:
    """Raise `QuotaformError` if a file of a new repository exists, or a link in the place of a folder."""
    wanted = [CONFIG_NAME, *(f"schemas/{name}.schema.json" for name in _SCHEMAS), *CI_FILES[ci].values()]
    there = [directory / name for name in wanted if lexists(directory / name)]
    quotas = directory / QUOTAS_NAME
    if lexists(quotas) and not (is_folder(quotas) and not any(quotas.iterdir())):
        there.append(quotas)
    folders = {parent for name in wanted for parent in (directory / name).parents if parent.is_relative_to(directory)}
    there += [folder for folder in sorted({*folders, quotas}) if lexists(folder) and not is_within(folder, directory)]
    if there:
        raise QuotaformError(
            "these exist already and are never overwritten, so nothing was written; move them away, or choose another "
            "directory:",
            *(f"  {each}" for each in dict.fromkeys(there)),
        )


def require_cluster(request: InitRequest) -> Cluster:
    """Return the cluster, once quotaform.yaml is known to take its name and its servers.

    Raises `UsageError` if it does not.
    """
    with as_usage_error():
        servers = tuple(map(str, parse_servers(request.servers)))
    cluster = Cluster(name=request.cluster, bootstrap_servers=servers, command_config=request.command_config)
    _, problems = read_config(SourceFile(CONFIG_NAME, _config_text(request, cluster, None)), request.directory)
    if problems:
        raise UsageError(problems[0].message)
    return cluster


def _config_text(request: InitRequest, cluster: Cluster, cluster_id: str | None) -> str:
    lines = [
        "# yaml-language-server: $schema=schemas/config.schema.json",
        "clusters:",
        f"  {spell_scalar(cluster.name)}:",
        f"    bootstrap_servers: [{', '.join(map(spell_scalar, cluster.bootstrap_servers))}]",
    ]
    if request.command_config is not None:
        top, there = os.path.abspath(request.directory), os.path.abspath(request.command_config)  # noqa: PTH100
        path = f"command_config: {spell_scalar(Path(os.path.relpath(there, top)).as_posix())}"
        lines.append(f"    {path if request.ci == 'none' else _PROPERTIES_LINE}")
    if cluster_id is not None:
        lines.append(f"    cluster_id: {spell_scalar(cluster_id)}")
    return "".join(f"{line}\n" for line in lines)
