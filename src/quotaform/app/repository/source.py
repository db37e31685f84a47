"""Where the files of a plan come from: which commit they are at, and what earlier commits declared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.git.object import TreeEntry, blob_id
from quotaform.app.git.object_store import GitObjects, find_work_tree, open_objects
from quotaform.app.git.process import GitError, TimeLeft
from quotaform.app.repository.revision import WORK_TREE
from quotaform.core.check.facts import RemovalSearch
from quotaform.core.claim import Claim
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.plan import PlanSource
from quotaform.errors import FileReadError
from quotaform.model.approval import APPROVALS_NAME
from quotaform.model.entity import Entity

if TYPE_CHECKING:
    from quotaform.app.base.removal import Removals
    from quotaform.app.repository.repository import Repository
    from quotaform.desired.config import Config
    from quotaform.desired.tree import Tree


@dataclass(frozen=True, slots=True)
class Source:
    """Where the files of a plan come from.

    Attributes:
        plan_source: The directory, its commit and whether the files differ from it, as a plan says it.
        problem: Why the commit is not known although the files are in a git work tree.
        history: What earlier commits declared, if they can be asked.
        bases: What the base declares, by the name of each cluster; empty without a base.
        claims: What other quota repositories declare.
        missing: Why there are no files, if there are none.
    """

    plan_source: PlanSource
    problem: str | None = None
    history: Removals | None = None
    bases: Mapping[str, ClusterBase] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    missing: str | None = None

    def removed(self, cluster: str, entities: Collection[Entity], applied: str | None = None) -> RemovalSearch:
        """Look for entities that the files of a cluster declared before.

        `entities` are entities that the files do not declare now. `applied` is the commit of the last apply, if it is
        known.
        """
        if self.history is None or not entities:
            return RemovalSearch()
        return self.history.find(cluster, entities, applied)


def read_source(repository: Repository, config: Config, tree: Tree, today: date) -> Source:
    """Return where the files of a plan come from.

    There is no commit outside of a git work tree. The files (also quotaform.yaml, approvals.yaml and the policies)
    differ from it when any that was read is not, byte for byte, what the commit holds, or is missing on either side;
    line ends may be CRLF for LF. No filter is run: a file that git keeps in another form than the work tree (LFS,
    git-crypt) counts as different. `tree` is the quotas directory as it was read.
    """
    from quotaform.app.base.removal import Removals

    name = repository.directory.as_posix()
    top = find_work_tree(repository.directory)
    if top is None:
        return Source(PlanSource(directory=name))
    folder = repository.directory.resolve().relative_to(top.resolve()).as_posix()
    left = TimeLeft()
    try:
        with open_objects(top, left) as objects:
            commit = objects.commit("HEAD")
            if commit is None:
                # Before the first commit there is none, and git reports no error.
                return Source(PlanSource(directory=name), problem=objects.error_message())
            committed = list_files(objects, commit.tree, folder)
            dirty = not is_as_committed(tree, committed) or _settings_differ(
                repository, config, objects, commit.tree, top
            )
    except GitError as error:
        return Source(PlanSource(directory=name), problem=error.reason)
    history = Removals(top, folder, commit, tree, config.profiles, today, left)
    return Source(PlanSource(directory=name, commit=commit.id, dirty=dirty), history=history)


def list_files(objects: GitObjects, root: str, folder: str) -> dict[str, str]:
    """Return the files of a quotas directory that count, as a commit holds them: path to id.

    Args:
        root: The id of the commit's tree.
        folder: The directory, relative to it.

    Raises:
        GitError: Git does not answer, or a limit is reached.
    """
    from quotaform.desired.tree import is_hidden, is_read

    def inside(path: str) -> Iterator[tuple[str, TreeEntry]]:
        here = objects.entry(root, f"{folder}/{path}" if path else folder)
        for name, listed in objects.tree(here.id).items() if here is not None and here.is_folder else ():
            inner = f"{path}/{name}" if path else name
            if not is_hidden(name):
                entry = objects.entry(root, f"{folder}/{inner}") if listed.is_link else listed
                if entry is not None:
                    yield inner, entry

    files: dict[str, str] = {}
    for path, entry in inside(""):
        for inner, found in inside(path) if entry.is_folder else [(path, entry)]:
            if found.is_file and is_read(inner):
                files[inner] = found.id
    return files


def is_as_committed(tree: Tree, committed: Mapping[str, str]) -> bool:
    """Whether the files of a quotas directory are those of a commit; see `list_files`."""
    return tree.files.keys() == committed.keys() and all(
        is_blob(content, committed[path]) for path, content in tree.files.items()
    )


def is_blob(content: bytes, committed: str) -> bool:
    """Whether the content of a file is that of a blob, whatever its line ends are."""
    return blob_id(content, committed) == committed or (
        b"\r\n" in content and blob_id(content.replace(b"\r\n", b"\n"), committed) == committed
    )


def _settings_differ(repository: Repository, config: Config, objects: GitObjects, root: str, top: Path) -> bool:
    """Whether quotaform.yaml, approvals.yaml or the policies are not those of the commit."""
    path = repository.config_path
    return any(
        _file_differs(repository, each, objects, root, top) for each in (path, path.with_name(APPROVALS_NAME))
    ) or (bool(config.policies) and _policies_differ(path.parent, config, objects, root, top))


def _file_differs(repository: Repository, file: Path, objects: GitObjects, root: str, top: Path) -> bool:
    """Whether a file beside quotaform.yaml is not the one of the commit; one outside of the work tree is in none."""
    path = file.resolve()
    if not path.is_relative_to(top.resolve()):
        return False
    try:
        source = repository.revision.read_config(file)
    except FileReadError:
        return True
    entry = objects.entry(root, path.relative_to(top.resolve()).as_posix())
    if source is None or entry is None:
        return source is not None or entry is not None
    content = source.text if isinstance(source.text, bytes) else source.text.encode()
    return not is_blob(content, entry.id)


def _policies_differ(folder: Path, config: Config, objects: GitObjects, root: str, top: Path) -> bool:
    """Whether the policies that quotaform.yaml names are not those of the commit; see `_file_differs`."""
    from quotaform.app.git.revision import GitRevision
    from quotaform.app.repository.policy_files import DiskFolder, list_policies

    committed = GitRevision(objects, root, top, elsewhere=WORK_TREE).folder(folder)
    if committed is None:
        return False
    here = DiskFolder(folder)
    paths = list(list_policies(here, config.policies, []))
    if set(paths) != set(list_policies(committed, config.policies, [])):
        return True
    try:
        return not all(
            (entry := committed.entry(path)).is_file and is_blob(here.read(path), entry.id) for path in paths
        )
    except FileReadError:
        return True
