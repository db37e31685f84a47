"""The policies that quotaform.yaml names: found in its folder, read and ready to be asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.core.check import rule
from quotaform.core.scope import matches_glob
from quotaform.errors import FileReadError
from quotaform.files import POLICY_LIMIT, is_folder, is_within, read_bytes, reason_of
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.core.check.policy import Policy
    from quotaform.desired.config import Config, ListedPath

MOST_POLICIES: Final = 100
"""How many files of policies a repository may have."""
MOST_LISTED: Final = 10_000
"""How many files and folders are looked at for one glob."""

_IS_GLOB: Final = regex(r"[*?\[]").search


@dataclass(frozen=True, slots=True)
class LoadedPolicies:
    """The policies of a repository.

    Attributes:
        policies: Those that can be used.
        problems: What is wrong with the others.
    """

    policies: tuple[Policy, ...] = ()
    problems: tuple[Finding, ...] = ()


NO_POLICIES: Final = LoadedPolicies()


class _NoFilesError(Exception):
    """A path or a glob stands for nothing that can be read."""


def load_policies(repository: Repository, config: Config) -> LoadedPolicies:
    """Read the policies that a configuration names; never raises for what is in the files.

    They are those of the work tree, also when the quotas of another commit are read.

    Args:
        repository: Where quotaform.yaml is.
        config: Its content.
    """
    if not config.policies:
        return NO_POLICIES
    from quotaform.desired.policy.reader import read_policy
    from quotaform.desired.policy.shape import MOST_STEPS
    from quotaform.desired.tree import SourceFile, shown_path

    folder = repository.config_path.parent
    problems: list[Finding] = []
    policies: list[Policy] = []
    room = MOST_STEPS
    for path in _files(folder, config.policies, problems):
        name = shown_path(folder / path)
        try:
            source = SourceFile(name, read_bytes(folder / path, POLICY_LIMIT, within=folder))
        except FileReadError as error:
            text = f"the policy cannot be read: {error.reason}"
            problems.append(rule.BAD_POLICY.finding(text, location=Location(name)))
            continue
        policy, found, steps = read_policy(source, room)
        room -= steps
        problems += found
        if policy is not None:
            policies.append(policy)
    return LoadedPolicies(tuple(policies), tuple(problems))


def _files(folder: Path, paths: tuple[ListedPath, ...], problems: list[Finding]) -> Iterator[str]:
    """Yield the files that paths and globs stand for, relative to a folder, each once."""
    known: set[str] = set()
    for each in paths:
        try:
            found = _expand(folder, each.text)
        except _NoFilesError as error:
            problems.append(rule.BAD_POLICY.finding(str(error), location=each.location))
            continue
        for path in found:
            if path not in known and len(known) == MOST_POLICIES:
                text = f"there are more than {MOST_POLICIES} files of policies; join some"
                problems.append(rule.BAD_POLICY.finding(text, location=each.location))
                return
            if path not in known:
                known.add(path)
                yield path


def _expand(folder: Path, text: str) -> list[str]:
    """Return the files that a path or a glob stands for, sorted; hidden ones only by their name.

    Raises:
        _NoFilesError: There is none, or it leads out of the folder.
    """
    shown, normal = inert(text), os.path.normpath(text)
    if PurePosixPath(normal).is_absolute() or normal.split("/")[0] == os.pardir:
        raise _NoFilesError(f"{shown} leads out of the directory of quotaform.yaml; keep policies within it")
    if not _IS_GLOB(normal):
        if not os.path.lexists(folder / normal):
            raise _NoFilesError(f"{shown} does not exist; correct the path, or remove it")
        return [normal]
    if "**" in normal:
        raise _NoFilesError(f"{shown}: ** is not supported; write one pattern for each directory")
    found = [""]
    for part in normal.split("/"):
        found = [path for parent in found for path in _matching(folder, parent, part)]
    files = [path for path in found if not is_folder(folder / path)]
    if not files:
        raise _NoFilesError(f"{shown} matches no file; correct the pattern, or remove it")
    return files


def _matching(folder: Path, parent: str, part: str) -> list[str]:
    """Return what a part of a glob matches in a folder.

    Raises:
        _NoFilesError: There is too much in it, or it cannot be listed.
    """
    here = folder / parent
    prefix = f"{parent}/" if parent else ""
    if not _IS_GLOB(part):
        return [f"{prefix}{part}"] if os.path.lexists(here / part) else []
    if not is_folder(here) or not is_within(here, folder):
        return []
    names: list[str] = []
    try:
        with os.scandir(here) as entries:
            for count, entry in enumerate(entries):
                if count == MOST_LISTED:
                    raise _NoFilesError(f"{inert(part)}: there are more than {MOST_LISTED:,} files; name the policies")
                if not entry.name.startswith(".") and matches_glob(entry.name, part):
                    names.append(entry.name)
    except OSError as error:
        raise _NoFilesError(f"{inert(prefix)} cannot be listed: {reason_of(error)}") from None
    return [f"{prefix}{name}" for name in sorted(names)]
