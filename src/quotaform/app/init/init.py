"""A new quota repository: its configuration, the live quotas as files, schemas for editors, workflows for CI."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from os.path import lexists
from pathlib import Path
from typing import Final

from quotaform.app.init.ci_files import CI_FILES, PROPERTIES_VARIABLE, ci_files
from quotaform.app.init.import_quotas import import_cluster
from quotaform.app.repository.gateway import open_gateway
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.revision import CONFIG_NAME, QUOTAS_NAME
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.result import Import, Initialization
from quotaform.desired.config import Cluster, Config
from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas, spell_scalar
from quotaform.errors import ClusterError, ExistingFilesError, QuotaformError, UsageError
from quotaform.files import is_folder, is_within, read_text
from quotaform.model.server import parse_servers
from quotaform.schema.catalog import schema_text

_IGNORE: Final = ".gitignore"
_IGNORED: Final = (".quotaform/", "/plan.json", "/plan.md", "/plans/", "/revert.json", "/receipt.json", "/audit.jsonl")
"""Receipts, audit logs and plans show what clusters hold, and belong to one work tree."""
_IGNORE_LIMIT: Final = 1 << 20
_SCHEMAS: Final = ("config", "quotas")
_EMPTY: Final = "quotas.yaml"
_PROPERTIES_LINE: Final = f'command_config: "${{env:{PROPERTIES_VARIABLE}}}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """What a new repository is to hold.

    Attributes:
        servers: The bootstrap servers of its cluster, as the command line gives them.
        command_config: The client properties file, if there is one.
        imports: Whether the live quotas are written.
        ci: The CI system to write files for: a key of `CI_FILES`.
    """

    directory: Path
    servers: str
    command_config: Path | None
    cluster: str
    imports: bool
    ci: str


def make_repository(request: InitRequest, *, progress: Progress = no_progress) -> Initialization:
    """Return the files of a new repository, or of a further cluster of one; nothing is written.

    The quotas of a cluster go to its own folder, so that those of a further one do not clash with them. Without an
    import, a cluster that cannot be reached is no error: its id is not pinned then.

    Raises:
        UsageError: The name or a server cannot be one.
        ExistingFilesError: There is any of the files, or the folder of a further cluster.
        QuotaformError: quotaform.yaml names the cluster already.
        ClusterError: The cluster cannot be read, and its quotas are to be imported.
        InvalidFilesError: The client properties are invalid.
    """
    directory = request.directory
    repository = Repository(directory=directory / QUOTAS_NAME, config_path=directory / CONFIG_NAME)
    known = repository.config().clusters if repository.has_config() else {}
    is_further = bool(known)
    if request.cluster in known:
        raise QuotaformError(
            f"{request.cluster} is already in {repository.config_path}, so nothing was written; quotaform import "
            f"--cluster {request.cluster} writes the quotas that no file declares yet"
        )
    if not is_further:
        require_nothing_there(directory, request.ci)
    cluster = require_cluster(request)
    folder = repository.directory / cluster.name
    is_there = is_further and lexists(folder)
    cluster_id: str | None = None
    unknown_id: str | None = None
    imported: Import | None = None
    try:
        with open_gateway(cluster) as gateway:
            cluster_id = gateway.cluster_id()
            if request.imports and not is_there:
                config = repository.config() if is_further else Config()
                config = replace(config, clusters={**known, cluster.name: cluster})
                imported = import_cluster(repository, config, cluster.name, gateway, is_own=True, progress=progress)
    except ClusterError as error:
        if request.imports and not is_there:
            raise
        unknown_id = str(error)
    config_text = _config_text(request, cluster, cluster_id)
    environment: dict[str, str] = {}
    if request.ci != "none" and not (is_further and request.command_config is None):
        path = str(request.command_config or "path/to/client.properties")
        environment = {PROPERTIES_VARIABLE: path, "QUOTAFORM_ENV": PROPERTIES_VARIABLE}
    if is_there:
        raise ExistingFilesError([str(folder)], config_text.splitlines()[2:])
    if is_further:
        workflows = (path for files in CI_FILES.values() for path in files.values() if lexists(directory / path))
        return Initialization(
            files=imported.files if imported else {},
            directory=str(directory),
            imported=imported,
            cluster_id=cluster_id,
            unknown_id=unknown_id,
            environment=environment,
            cluster=cluster.name,
            added=tuple(config_text.splitlines()[2:]),
            matrices=tuple(workflows),
        )
    contents = {str(directory / CONFIG_NAME): config_text}
    contents |= imported.files if imported else {str(directory / QUOTAS_NAME / _EMPTY): render_quotas({})[0]}
    contents |= {str(directory / "schemas" / f"{name}.schema.json"): schema_text(name) for name in _SCHEMAS}
    contents |= {str(directory / path): text for path, text in ci_files(request.ci, spell_scalar(cluster.name))}
    missing = _missing_ignores(directory)
    if not lexists(directory / _IGNORE):
        contents[str(directory / _IGNORE)] = "".join(f"{line}\n" for line in missing)
        missing = ()
    return Initialization(
        files=contents,
        directory=str(directory),
        imported=imported,
        cluster_id=cluster_id,
        unknown_id=unknown_id,
        ignored=missing,
        environment=environment,
        unread_properties=_PROPERTIES_LINE if request.command_config is None and request.ci != "none" else None,
    )


def require_nothing_there(directory: Path, ci: str) -> None:
    """Raise `ExistingFilesError` if a file of a new repository exists, or a link in the place of a folder."""
    wanted = [CONFIG_NAME, *(f"schemas/{name}.schema.json" for name in _SCHEMAS), *CI_FILES[ci].values()]
    there = [directory / name for name in wanted if lexists(directory / name)]
    quotas = directory / QUOTAS_NAME
    if lexists(quotas) and not (is_folder(quotas) and not any(quotas.iterdir())):
        there.append(quotas)
    folders = {parent for name in wanted for parent in (directory / name).parents if parent.is_relative_to(directory)}
    there += [folder for folder in sorted({*folders, quotas}) if lexists(folder) and not is_within(folder, directory)]
    if there:
        raise ExistingFilesError(list(map(str, dict.fromkeys(there))))


def require_cluster(request: InitRequest) -> Cluster:
    """Return the cluster, once quotaform.yaml is known to take its name and its servers.

    Raises `UsageError` if it does not.
    """
    try:
        servers = tuple(map(str, parse_servers(request.servers)))
    except ValueError as error:
        raise UsageError(str(error)) from None
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
        by_variable = request.ci != "none"
        lines.append(f"    {_PROPERTIES_LINE if by_variable else _path_line(request, request.command_config)}")
    if cluster_id is not None:
        lines.append(f"    cluster_id: {spell_scalar(cluster_id)}")
    return "".join(f"{line}\n" for line in lines)


def _path_line(request: InitRequest, path: Path) -> str:
    top, there = os.path.abspath(request.directory), os.path.abspath(path)  # noqa: PTH100
    return f"command_config: {spell_scalar(Path(os.path.relpath(there, top)).as_posix())}"


def _missing_ignores(directory: Path) -> tuple[str, ...]:
    """Return the lines that `.gitignore` lacks."""
    path = directory / _IGNORE
    if not lexists(path):
        return _IGNORED
    known = {line.strip().strip("/") for line in read_text(path, _IGNORE_LIMIT, within=directory).split("\n")}
    return tuple(line for line in _IGNORED if line.strip("/") not in known)
