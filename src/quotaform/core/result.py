"""What use cases return and views show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Values, same_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """What an alteration did, or would do.

    Attributes:
        entity: Whose quotas it is about.
        ops: What was asked for: quota key to the value to set, `None` to remove it.
        before: What the entity held.
        after: What it holds, freshly read; with `is_validation` what it would hold.
        is_validation: Whether nothing was changed.
        is_late: Whether the broker's answer was lost, and the change shows all the same.
    """

    entity: Entity
    ops: Mapping[str, float | None]
    before: Values
    after: Values
    is_validation: bool = False
    is_late: bool = False

    def has_changed(self, key: str) -> bool:
        """Whether a key has, or would have, another value than before."""
        return not same_value(self.before.get(key), self.after.get(key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The files that would bring a cluster under management.

    Attributes:
        files: Path to content, none of which exists yet.
        counts: Path to the number of entities that the file declares.
        declared: How many live entities were declared already.
        out_of_scope: How many are out of scope.
        left_out: How many the files cannot express.
        differing: How many entities are declared otherwise than they are on the cluster.
        differing_from_common: How many of those are in the common files, which declare them for other clusters, too.
        findings: What files cannot express, and other findings about the live quotas.
    """

    files: Mapping[str, str]
    counts: Mapping[str, int]
    declared: int
    out_of_scope: int
    left_out: int
    differing: int
    differing_from_common: int = 0
    findings: tuple[Finding, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the cluster has no quotas."""
        return not (self.declared or self.out_of_scope or self.left_out or any(self.counts.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What came of checking the files.

    Attributes:
        files: How many files were read.
        entities: How many entities they declare, per cluster; the key is `None` without clusters.
        problems: All problems and warnings of all files, by place.
    """

    directory: str
    files: int
    entities: Mapping[str | None, int]
    problems: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong; warnings are not."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedFile:
    """What became of a file that was to be formatted.

    Attributes:
        name: The file in messages.
        before: Its text, with a byte order mark if there is one.
        after: Its text when it is formatted; the same as before when there are problems.
        problems: Why it stays as it is.
    """

    name: str
    before: str
    after: str
    problems: tuple[Finding, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether formatting makes a difference."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    """The files of a new quota repository.

    Attributes:
        files: Path to content, none of which exists yet.
        imported: What was imported; `None` when nothing was to be.
        cluster_id: The id of the cluster, which quotaform.yaml pins; `None` when it is not known.
        unknown_id: Why it is not known.
        ignored: The lines that an existing `.gitignore` lacks, and that were not written.
        environment: The environment variables that quotaform.yaml refers to, or would with `unread_properties`, and
            what they stand for here.
        cluster: The name of a further cluster, to which `added` belongs.
        unread_properties: The line of the cluster in quotaform.yaml that would read the client properties which the
            workflows write; `None` when it is there, or there are no workflows.
        added: The lines of a further cluster in quotaform.yaml, which is there already and not written.
        matrices: The workflows that are there, which name each cluster.
    """

    files: Mapping[str, str]
    imported: Import | None = None
    cluster_id: str | None = None
    unknown_id: str | None = None
    ignored: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    unread_properties: str | None = None
    cluster: str = ""
    added: tuple[str, ...] = ()
    matrices: tuple[str, ...] = ()
