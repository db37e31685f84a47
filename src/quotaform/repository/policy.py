"""The policies that quotaform.yaml names: which files these are, read and ready to be asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from quotaform.desired.config import Config, WrittenText
from quotaform.desired.tree import SourceFile, shown_path
from quotaform.model import rule
from quotaform.model.errors import FileReadError
from quotaform.model.finding import Finding, Location
from quotaform.model.scope import is_glob, matches_glob
from quotaform.model.text import inert
from quotaform.repository.repository import Repository
from quotaform.repository.revision import DiskFolder, Folder
from quotaform.system.files import POLICY_LIMIT

if TYPE_CHECKING:
    from quotaform.desired.policy.reader import Policy


MOST_POLICIES: Final = 100
"""How many files of policies a repository may have."""
MOST_LISTED: Final = 10_000
"""How many files and folders are looked at for one glob."""


class _NoFilesError(Exception):
    """A path or a glob stands for nothing that can be read."""


def list_policies(folder: Folder, paths: Sequence[WrittenText], problems: list[Finding]) -> Iterator[str]:
    """Yield the files that paths and globs of quotaform.yaml stand for, each once; `problems` takes what is wrong."""
    known: set[str] = set()
    for each in paths:
        try:
            found = _expand(folder, each.text)
        except _NoFilesError as error:
            problems.append(rule.BAD_POLICY.finding(str(error), location=each.location))
            continue
        for path in found:
            if path in known:
                continue
            if len(known) == MOST_POLICIES:
                text = f"there are more than {MOST_POLICIES} files of policies; join some"
                problems.append(rule.BAD_POLICY.finding(text, location=each.location))
                return
            known.add(path)
            yield path


def policy_digest(content: bytes) -> str:
    """Return the digest of the content of a policy, whatever its line ends are."""
    return sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def policy_digests(folder: Folder, paths: Sequence[WrittenText]) -> Mapping[str, str]:
    """Return the digests of policy files by path; that of one which cannot be read is that of no file."""
    found: dict[str, str] = {}
    for path in list_policies(folder, paths, []):
        try:
            found[path] = policy_digest(folder.read(path, POLICY_LIMIT))
        except FileReadError:
            found[path] = ""
    return found


def _expand(folder: Folder, text: str) -> list[str]:
    """Return the files of a path or a glob, sorted; hidden ones only by name. Raises `_NoFilesError` without any."""
    shown, normal = inert(text), os.path.normpath(text)
    if PurePosixPath(normal).is_absolute() or normal.split("/")[0] == os.pardir:
        raise _NoFilesError(f"{shown} leads out of the directory of quotaform.yaml; keep policies within it")
    if not is_glob(normal):
        if not folder.has(normal):
            raise _NoFilesError(f"{shown} does not exist; correct the path, or remove it")
        return [normal]
    if "**" in normal:
        raise _NoFilesError(f"{shown}: ** is not supported; write one pattern for each directory")
    found = [""]
    for part in normal.split("/"):
        found = [path for parent in found for path in _matching(folder, parent, part)]
    files: list[str] = []
    for path in found:
        with suppress(FileReadError):
            if folder.is_folder(path):
                continue
        files.append(path)  # What leads nowhere is found when it is read.
    if not files:
        raise _NoFilesError(f"{shown} matches no file; correct the pattern, or remove it")
    return files


def _matching(folder: Folder, parent: str, part: str) -> list[str]:
    prefix = f"{parent}/" if parent else ""
    if not is_glob(part):
        return [f"{prefix}{part}"] if folder.has(f"{prefix}{part}") else []
    names: list[str] = []
    try:
        for count, name in enumerate(folder.names(parent)):
            if count == MOST_LISTED:
                raise _NoFilesError(f"{inert(part)}: there are more than {MOST_LISTED:,} files; name the policies")
            if not name.startswith(".") and matches_glob(name, part):
                names.append(name)
    except FileReadError as error:
        raise _NoFilesError(f"{inert(prefix)} cannot be listed: {error.reason}") from None
    return [f"{prefix}{name}" for name in sorted(names)]


class LoadedPolicies(Struct, frozen=True):
    """The policies of a repository."""

    policies: tuple[Policy, ...] = ()  # those that can be used
    problems: tuple[Finding, ...] = ()  # what is wrong with the others
    # The digest of the content of each file that could be read, by its path relative to quotaform.yaml
    digests: Mapping[str, str] = field(default_factory=dict)


NO_POLICIES: Final = LoadedPolicies()


def load_policies(repository: Repository, config: Config) -> LoadedPolicies:
    """Read the policies of the work tree, also for the quotas of another commit; never raises for what is in them."""
    if not config.policies:
        return NO_POLICIES
    from quotaform.desired.policy.reader import MOST_STEPS, read_policy

    folder = DiskFolder(repository.config_path.parent)
    problems: list[Finding] = []
    policies: list[Policy] = []
    digests: dict[str, str] = {}
    room = MOST_STEPS
    for path in list_policies(folder, config.policies, problems):
        name = shown_path(folder.folder / path)
        try:
            content = folder.read(path, POLICY_LIMIT)
        except FileReadError as error:
            text = f"the policy cannot be read: {error.reason}"
            problems.append(rule.BAD_POLICY.finding(text, location=Location(name)))
            continue
        digests[path] = policy_digest(content)
        policy, found, steps = read_policy(SourceFile(name, content), room)
        room -= steps
        problems += found
        if policy is not None:
            policies.append(policy)
    return LoadedPolicies(tuple(policies), tuple(problems), digests)
