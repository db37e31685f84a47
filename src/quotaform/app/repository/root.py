"""Other quota repositories, which quotaform.yaml lists under `roots`, and what they declare for the same clusters.

A path is relative to quotaform.yaml and leads, once all links are followed, to somewhere in the same git work tree, or
in the folder above that of quotaform.yaml. What is there is read like any repository: nothing in it is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from quotaform.app.git.object_store import find_work_tree
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.revision import CONFIG_NAME, QUOTAS_NAME, WorkTree
from quotaform.core.check import rule
from quotaform.core.claim import Claim
from quotaform.errors import FileReadError, InvalidFilesError, LayerDirectoryError
from quotaform.files import is_folder, is_within
from quotaform.model.finding import Finding
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.desired.config import Config, ListedPath
    from quotaform.desired.loader import LoadedFiles
    from quotaform.desired.tree import Tree


def read_claims(repository: Repository, config: Config, today: date) -> tuple[Claim, ...]:
    """Return what the other repositories declare for their clusters.

    Raises `InvalidFilesError` if one of them is not there, or has invalid files; all problems at once.
    """
    claims: list[Claim] = []
    problems: list[Finding] = []
    for path in config.roots:
        try:
            root = _root(repository, path)
            other = root.config()
            claims += claims_of(other, root.load(other, today))
        except InvalidFilesError as error:
            problems += error.problems
        except LayerDirectoryError as error:
            problems.append(_problem(path, str(error)))
    if problems:
        raise InvalidFilesError(problems)
    return tuple(claims)


def root_trees(repository: Repository, config: Config) -> tuple[Tree, ...]:
    """Return the files of the other repositories, to see whether they change; none of one that is not there."""
    trees: list[Tree] = []
    for path in config.roots:
        try:
            root = _root(repository, path)
            source = root.revision.read_config(root.config_path)
        except (InvalidFilesError, FileReadError):
            continue
        tree = root.revision.read_tree(root.directory)
        text = b"" if source is None or isinstance(source.text, str) else source.text
        trees.append(replace(tree, files={**tree.files, CONFIG_NAME: text}))
    return tuple(trees)


def claims_of(config: Config, files: LoadedFiles) -> Iterator[Claim]:
    """Yield what the files of a repository declare for each of its clusters.

    Raises `InvalidFilesError` if the files of a cluster are invalid.
    """
    for cluster in config.clusters.values():
        yield Claim(cluster.name, cluster.cluster_id, files.desired(cluster.name))


def _root(repository: Repository, path: ListedPath) -> Repository:
    """Return another repository.

    Raises `InvalidFilesError` if it is not there, is this one, or is somewhere else than other repositories may be.
    """
    folder = repository.config_path.parent
    place = folder / path.text
    if PurePosixPath(path.text).is_absolute() or not _is_allowed(place, repository):
        where = "within the git work tree, or the directory above that of quotaform.yaml"
        raise InvalidFilesError([_problem(path, f"{inert(path.text)} is not {where}; give a path that is")])
    quotas = place / QUOTAS_NAME if is_folder(place / QUOTAS_NAME) else place
    if os.path.realpath(quotas) == os.path.realpath(repository.directory):
        raise InvalidFilesError([_problem(path, f"{inert(path.text)} is this quota repository; remove it")])
    root = Repository(directory=quotas, config_path=quotas.parent / CONFIG_NAME, revision=WorkTree())
    if not is_folder(quotas) or not root.has_config():
        text = (
            f"{inert(path.text)} is not a quota repository: it needs a quotas directory, and quotaform.yaml beside it"
        )
        raise InvalidFilesError([_problem(path, text)])
    return root


def _is_allowed(place: Path, repository: Repository) -> bool:
    above = Path(os.path.realpath(repository.config_path.parent)).parent
    top = find_work_tree(repository.config_path)
    return is_within(place, above) or (top is not None and is_within(place, top))


def _problem(path: ListedPath, text: str) -> Finding:
    return rule.BAD_ROOT.finding(text, location=path.location)
