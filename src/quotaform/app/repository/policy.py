"""The policies that quotaform.yaml names: found in its folder, read and ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from quotaform.app.repository.policy_files import DiskFolder, list_policies, policy_digest
from quotaform.core.check import rule
from quotaform.errors import FileReadError
from quotaform.model.finding import Finding
from quotaform.model.location import Location

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.core.check.policy import Policy
    from quotaform.desired.config import Config


@dataclass(frozen=True, slots=True)
class LoadedPolicies:
    """The policies of a repository.

    Attributes:
        policies: Those that can be used.
        problems: What is wrong with the others.
        digests: The digest of the content of each file that could be read, by its path relative to quotaform.yaml.
    """

    policies: tuple[Policy, ...] = ()
    problems: tuple[Finding, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


NO_POLICIES: Final = LoadedPolicies()


def load_policies(repository: Repository, config: Config) -> LoadedPolicies:
    """Read the policies that a configuration names; never raises for what is in the files.

    They are those of the work tree, also when the quotas of another commit are read.
    """
    if not config.policies:
        return NO_POLICIES
    from quotaform.desired.policy.reader import read_policy
    from quotaform.desired.policy.shape import MOST_STEPS
    from quotaform.desired.tree import SourceFile, shown_path

    folder = DiskFolder(repository.config_path.parent)
    problems: list[Finding] = []
    policies: list[Policy] = []
    digests: dict[str, str] = {}
    room = MOST_STEPS
    for path in list_policies(folder, config.policies, problems):
        name = shown_path(folder.folder / path)
        try:
            content = folder.read(path)
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
