"""Every error that quotaform raises, in one tree.

| exit code | errors |
| --- | --- |
| 1 | what cannot be read, reached or started: all that have no other code |
| 3 | `InvalidFilesError`, `SavedFileError`: a file is invalid, or cannot be used by this version |
| 4 | `BlockedError`: refused before anything was written |
| 5 | `StaleError`: a plan, its id, a saved file or the cluster no longer match |
| 6 | `PartialError`: some changes were written, and some are not in effect |
| 64 | `UsageError`: the command was used wrongly |

An error carries what it is about as attributes and builds its message from them: what is wrong,
where, and what to do. `exit_code` is that of a process that ends with this error alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import timedelta
from enum import IntEnum
from itertools import islice
from re import compile as regex
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from quotaform.model.moment import duration_text
from quotaform.model.text import option_of, printable

if TYPE_CHECKING:
    from quotaform.model.entity import Entity
    from quotaform.model.finding import Finding


class ExitCode(IntEnum):
    """The exit codes of `quotaform`.

    | code | meaning |
    | --- | --- |
    | 0 | success, or nothing to do |
    | 1 | error: could not read, connect or authorise; nothing was written |
    | 2 | differences found: `plan --detailed-exitcode`, `drift` |
    | 3 | the files are invalid |
    | 4 | blocked, rejected by the broker's dry run, or not approved |
    | 5 | stale: the plan, its id or the cluster does not match |
    | 6 | partial: some changes were written, and some are not in effect |
    | 64 | wrong usage of the command |
    | 130, 143 | interrupted |
    """

    DONE = 0
    ERROR = 1
    DIFFERENCES = 2
    INVALID = 3
    BLOCKED = 4
    STALE = 5
    PARTIAL = 6
    USAGE = 64
    INTERRUPTED = 130
    TERMINATED = 143

    @classmethod
    def most_severe(cls, codes: Iterable[ExitCode]) -> ExitCode:
        """Return the code that matters most.

        >>> ExitCode.most_severe([ExitCode.DIFFERENCES, ExitCode.ERROR]), ExitCode.most_severe([])
        (<ExitCode.ERROR: 1>, <ExitCode.DONE: 0>)
        """
        return min(codes, key=_SEVERITY.index, default=cls.DONE)


_SEVERITY: Final = (
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
    ExitCode.PARTIAL,
    ExitCode.STALE,
    ExitCode.USAGE,
    ExitCode.ERROR,
    ExitCode.INVALID,
    ExitCode.BLOCKED,
    ExitCode.DIFFERENCES,
    ExitCode.DONE,
)


def missing_extra(extra: str) -> str:
    """Return the remedy for a missing extra; it names nothing to install from an index.

    >>> missing_extra("oauth")
    "quotaform was installed without its extra oauth; add it in quotaform's checkout with pip install '.[oauth]'"
    """
    remedy = f"add it in quotaform's checkout with pip install '.[{extra}]'"
    return f"quotaform was installed without its extra {extra}; {remedy}"


class QuotaformError(Exception):
    """The base of all errors that a user can cause or see.

    A message quotes what files, arguments and clusters hold, so each of its lines is made printable here: what is
    quoted can neither begin a line of its own nor move the cursor of a terminal.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.ERROR

    def __init__(self, *lines: str) -> None:
        """Build the message of its lines."""
        super().__init__("\n".join(map(printable, lines)))

    def text_of(self, cluster: str) -> str:
        """Return the message as that of one cluster, where there may be results of others."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the attributes: constructors take other things than a message."""
        return _restored, (type(self), self.args, dict(vars(self)))


def _restored(kind: type[QuotaformError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> QuotaformError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


_SHOWN: Final = 20
_NEW_PLAN: Final = f"Make a new plan (quotaform plan {option_of('out')} plan.json) and review it."


def _first(lines: Iterable[str], total: int) -> list[str]:
    """Return the first lines of a list, and how many more there are."""
    return [*islice(lines, _SHOWN), *_more(total)]


def _more(total: int) -> list[str]:
    return [f"  ... and {total - _SHOWN:,} more"] if total > _SHOWN else []


class UsageError(QuotaformError):
    """Something that does not exist is named, or arguments exclude each other."""

    exit_code = ExitCode.USAGE


class ArgumentError(UsageError):
    """An argument cannot be used as it is, or another one is needed: `{base}` in a message is the argument `base`.

    Python reads its name, and a command line its option. `{}` is the next of the texts that the message quotes, which
    may have braces themselves.
    """

    def __init__(self, message: str, *quoted: object) -> None:
        self.message = message
        self.quoted = tuple(map(str, quoted))
        super().__init__(self.spelled(str))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """Return the message with each argument as `spell` has it."""
        quoted = iter(self.quoted)
        return printable(_IN_BRACES.sub(lambda found: spell(found[1]) if found[1] else next(quoted), self.message))


_IN_BRACES: Final = regex(r"{(\w*)}")


class LayerDirectoryError(UsageError):
    """The folder of one cluster was given for the whole quotas directory, whose common files would be left out."""

    def __init__(self, directory: str, cluster: str, whole: str) -> None:
        self.directory = directory
        self.cluster = cluster
        self.whole = whole
        super().__init__(f"{directory} is the layer of cluster {cluster}; give {whole}")


class ClusterChoiceError(UsageError):
    """quotaform.yaml names several clusters, which are in `clusters`, and nothing says which is meant."""

    shown = 10

    def __init__(self, clusters: Sequence[str]) -> None:
        self.clusters = tuple(clusters)
        more = f" and {len(self.clusters) - self.shown:,} more" if len(self.clusters) > self.shown else ""
        super().__init__(f"quotaform.yaml names several clusters ({', '.join(self.clusters[: self.shown])}{more})")


class NoClusterError(UsageError):
    """The configuration at `config_path` names no cluster, or does not exist."""

    def __init__(
        self, config_path: str, *, exists: bool, directory: str | None = None, above: str | None = None
    ) -> None:
        self.config_path = config_path  # quotaform.yaml; where it was looked for if there is none
        self.exists = exists  # whether there is one
        self.directory = directory  # the quotas directory, if there is none either
        self.above = above  # the directory above it to run this in, and what is there, in words
        problem = f"{config_path} {'names none' if exists else 'does not exist'}; write clusters: there"
        if directory is not None:
            problem = f"neither {directory} nor {config_path} exists; correct the path, begin with quotaform init"
        if above is not None:
            problem = f"{problem.partition(';')[0]}; run this in {above}"
        super().__init__(f"no cluster is given: {problem}")


class UnknownKeyError(UsageError):
    """A quota key is asked for that this version does not know and no entity on the cluster has."""

    def __init__(self, key: str, shown: str, hint: str) -> None:
        self.key = key  # the name of the key
        super().__init__(f"{shown} is not a quota key, and no entity on the cluster has it{hint}")


class InvalidFilesError(QuotaformError):
    """One or more files are invalid; all problems of all files are in `problems`."""

    exit_code = ExitCode.INVALID

    def __init__(self, problems: Sequence[Finding], *, ends: str = "; nothing was sent to any cluster") -> None:
        self.problems = tuple(problems)
        self.ends = ends  # what became of clusters, at the end of the message
        super().__init__(*map(str, self.problems), f"{self._count} found{ends}.")

    @property
    def _count(self) -> str:
        count = len(self.problems)
        return f"{count:,} problem{'' if count == 1 else 's'}"

    def text_of(self, cluster: str) -> str:
        """Return the message with what became of one cluster."""
        problems, _, _ = str(self).rpartition("\n")
        ends = self.ends.replace("any cluster", "it")
        return f"{problems}\n{self._count} found for cluster {printable(cluster)}{ends}."


class FileReadError(QuotaformError):
    """A file cannot be read; what follows from that is up to the caller."""

    def __init__(self, path: str, reason: str, *, is_missing: bool = False) -> None:
        self.path = path  # the file
        self.reason = reason  # why, in the words of the operating system
        self.is_missing = is_missing  # whether there is no such file
        super().__init__(f"{path} cannot be read: {reason}")


class NotTextError(FileReadError):
    """A file is not text in UTF-8."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it is not UTF-8 text")


class BaseError(QuotaformError):
    """The base of a plan, or the baseline of a drift check, cannot be read."""

    def __init__(self, ref: str, reason: str, role: str = "base") -> None:
        self.ref = ref  # the git revision or the receipt, as it was given
        self.reason = reason  # why, with what to do if that is known
        self.role = role  # what it was given as: `base` or `baseline`
        super().__init__(f"the {role} {ref} cannot be read: {reason}")


class ExistingFilesError(QuotaformError):
    """Files of a new repository, or of a further cluster of one, which are in `files`, exist already."""

    def __init__(self, files: Sequence[str], added: Sequence[str] = ()) -> None:
        self.files = tuple(files)  # the files
        self.added = tuple(added)  # the lines of a further cluster that quotaform.yaml lacks
        if added:
            super().__init__(
                f"{', '.join(files)} exists already and is never overwritten, so nothing was written; if it holds the "
                "quotas of this cluster, add to clusters in quotaform.yaml:",
                *added,
            )
            return
        super().__init__(
            "these exist already and are never overwritten, so nothing was written; move them away, or choose another "
            "directory:",
            *(f"  {file}" for file in self.files),
        )


class UndeclaredError(QuotaformError):
    """No file declares the entity that was asked for."""

    def __init__(self, entity: Entity, nearest: str | None) -> None:
        self.entity = entity  # the entity
        self.nearest = nearest  # the declared address that is most like its own; `None` when none is near
        guess = f"; did you mean {nearest}?" if nearest is not None else ""
        super().__init__(f"no file declares {entity.address}{guess}")


class SavedFileError(QuotaformError):
    """A file that quotaform writes cannot be used: truncated, of another kind, or of an unknown major version."""

    exit_code = ExitCode.INVALID

    def __init__(self, file: str, problem: str) -> None:
        self.file = file  # its name
        self.problem = problem  # what is wrong with it and what to do
        super().__init__(f"{file} {problem}")


class BlockedError(QuotaformError):
    """Refused before anything was written. `word` is what programs read of why, as `blocked:RULE,RULE`."""

    exit_code = ExitCode.BLOCKED
    word = "blocked"


class ClusterIdError(BlockedError):
    """A cluster is not the one pinned in quotaform.yaml."""

    word = "blocked:cluster-id"

    def __init__(self, finding: Finding, *, expected: str, found: str | None, is_reading: bool = False) -> None:
        self.finding = finding  # what is wrong, as the check of a plan says it
        self.expected = expected  # the pinned id
        self.found = found  # the id of the cluster, or of its snapshot
        super().__init__(finding.message if is_reading else f"{finding.message} Nothing was written.")


class PlanBlockedError(BlockedError):
    """Findings of a plan block it."""

    shown = 5
    """How many findings are shown that one thing would allow."""

    def __init__(self, cluster: str, findings: Sequence[Finding], *, approvable: Collection[str] = ()) -> None:
        """Build the message; `approvable` are the rules that an approval lifts for one entity."""
        self.cluster = cluster  # the name of the cluster that the plan is for
        self.findings = tuple(findings)  # what blocks it
        self.word = blocked_word(finding.rule for finding in findings if finding.blocking)
        groups: dict[tuple[str, str | None], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.rule, finding.override), []).append(finding)
        lines = [line for group in groups.values() for line in self._lines(group, approvable)]
        if any(len(group) > self.shown for group in groups.values()):
            lines.append("quotaform plan shows all of them, and quotaform show those of a saved plan.")
        options = " ".join(dict.fromkeys(what for _, what in groups if what and what.startswith(option_of("allow"))))
        if options:
            approvals = "approvals, or " if any(_is_either(each, approvable) for each in self.findings) else ""
            lines.append(f"Correct the files, or plan again and allow what is meant: {approvals}{options}")
        super().__init__("the plan is blocked and nothing was written:", *lines)

    def _lines(self, group: Sequence[Finding], approvable: Collection[str]) -> Iterator[str]:
        """Yield what blocks the plan and one thing would allow, and that."""
        for finding in group[: self.shown]:
            yield f"  {finding.rule}: {f'{finding.address}: ' if finding.address else ''}{finding.message}"
        if len(group) > self.shown:
            yield f"  {group[0].rule}: ... and {len(group) - self.shown:,} more"
        if group[0].override:
            either = f"an approval in approvals.yaml (one entity), or {group[0].override} (all)"
            yield f"    Allow: {either if _is_either(group[0], approvable) else group[0].override}"


def _is_either(finding: Finding, approvable: Collection[str]) -> bool:
    """Whether an approval lifts it as well as an option does."""
    return finding.allowance is not None and finding.rule in approvable


def blocked_word(rules: Iterable[str]) -> str:
    """Return the word for a plan that rules block."""
    return f"blocked:{','.join(sorted(set(rules)))}"


class RefusedError(BlockedError):
    """The broker's validate-only answer refused entities; nothing was written. Why is in `reasons`, per entity."""

    word = "refused"

    def __init__(self, reasons: Mapping[Entity, str], total: int) -> None:
        self.reasons = dict(reasons)
        super().__init__(
            f"the broker would reject {len(reasons):,} of {total:,} entities, so nothing was written:",
            *_first((f"  {entity.address}: {reason}" for entity, reason in reasons.items()), len(reasons)),
        )


class NotApprovedError(BlockedError):
    """Nobody approved a change."""

    word = "not-approved"

    def __init__(self, clusters: Sequence[str], problem: str = "not approved", *, remedy: str | None = None) -> None:
        self.clusters = tuple(clusters)  # the names of the clusters that were to be changed
        self.problem = problem  # why it was not approved
        self.remedy = remedy  # what to do, if approval cannot be asked for
        super().__init__(f"{problem}; nothing was written{'' if remedy is None else f'; {remedy}'}")


class StaleError(QuotaformError):
    """A plan, a plan id or a cluster is no longer what it was; nothing was written."""

    exit_code = ExitCode.STALE


class SavedFileChangedError(SavedFileError, StaleError):
    """A file was changed after quotaform wrote it."""

    exit_code = ExitCode.STALE

    def __init__(self, file: str, mismatch: str, remedy: str) -> None:
        self.mismatch = mismatch  # what no longer matches: `plan id` or `digest`
        super().__init__(file, f"was changed after it was written: its {mismatch} does not match; {remedy}")


class PlanIdError(StaleError):
    """A plan is another one than the approved one."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected = expected  # the id of the approved plan
        self.found = found  # the id of this one
        super().__init__(
            f"the plan has id {found}, not the expected {expected}, so nothing was written: the cluster, the files or "
            "the allowances are not those of the review; review the new plan"
        )


class PlanAgeError(StaleError):
    """A plan is too old to be applied, or from the future."""

    def __init__(self, cluster: str, created_at: str, *, age: timedelta | None, limit: timedelta) -> None:
        self.cluster = cluster  # the name of the cluster that it is for
        self.created_at = created_at  # when it was made, as it says
        self.age = age  # how old it is, below zero for one from the future; `None` when `created_at` is not a time
        self.limit = limit  # how old it may be
        if age is None:
            problem = "which is not a time"
        elif age < timedelta():
            problem = f"which is {duration_text(-age)} in the future: check the clocks"
        else:
            problem = f"{duration_text(age)} ago, and may be {duration_text(limit)} old at most"
        super().__init__(f"the plan was made at {created_at}, {problem}; nothing was written: make a new plan")


class PlanGuardsError(StaleError):
    """A saved plan was checked by looser guards, or lifted by other approvals, than the repository has."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)  # what differs, in words
        super().__init__(
            "the plan was checked with other guards than those of this repository, so nothing was written:",
            *[f"  {problem}" for problem in self.problems],
            _NEW_PLAN,
        )


class OtherClusterError(StaleError):
    """A plan or a receipt is about another cluster."""

    def __init__(self, file: Literal["plan", "receipt"], expected: str, found: str) -> None:
        self.expected = expected  # the id of the cluster that it is about
        self.found = found  # the id of this cluster
        belongs, remedy = "of", "choose the cluster of the receipt, or give a receipt of this one"
        if file == "plan":
            belongs, remedy = "for", "nothing was written: check the bootstrap servers, or make a new plan"
        super().__init__(f"the {file} is {belongs} cluster {expected}, but this is cluster {found}; {remedy}")


class RevertError(StaleError):
    """What an apply changed cannot be put back, so that nothing is planned."""

    def __init__(self, problems: Mapping[tuple[Entity, str], str]) -> None:
        self.keys = tuple(problems)  # the entities and keys of which that is so
        super().__init__(
            "the apply cannot be reverted, so nothing is planned:",
            *_first((f"  {entity.address}: {key} {why}" for (entity, key), why in problems.items()), len(problems)),
            f"Leave these entities out with {option_of('exclude')}, or declare the values that they are to have.",
        )


class StaleEntitiesError(StaleError):
    """Some entities, which are in `entities`, have changed since the plan was made."""

    def __init__(self, differences: Mapping[Entity, Sequence[str]]) -> None:
        self.entities = tuple(differences)
        lines = [f"  {entity.address}: {how}" for entity, each in islice(differences.items(), _SHOWN) for how in each]
        super().__init__(
            f"the cluster has changed since the plan was made, in {len(differences):,} "
            f"{'entity' if len(differences) == 1 else 'entities'}, so nothing was written:",
            *lines,
            *_more(len(differences)),
            _NEW_PLAN,
        )


class PartialError(QuotaformError):
    """Some changes were written, and some are not in effect."""

    exit_code = ExitCode.PARTIAL

    def __init__(self, problem: str, entities: Sequence[Entity] = ()) -> None:
        self.entities = tuple(entities)  # the entities that were not seen to hold what was written
        super().__init__(problem)


class ApplyLostError(PartialError):
    """What applied a plan elsewhere was lost, so that its changes may be in effect: all, some or none of them."""

    def __init__(self, why: str, receipt: str | None = None) -> None:
        self.receipt = receipt  # where a receipt of it is, if it left one
        known = "" if receipt is None else f"; what was intended or done is in the receipt {receipt}"
        super().__init__(
            f"{why}, so it is not known how the apply ended: its changes may be in effect, now or within a minute"
            f"{known}. Nothing is rolled back. Run the same command again to complete the apply; quotaform plan shows "
            "what is left."
        )


class ClusterError(QuotaformError):
    """A cluster could not be read or changed."""

    joint = "; "
    """What is between the problem and the remedy."""

    def __init__(
        self,
        problem: str,
        *,
        remedy: str | None = None,
        cluster: str | None = None,
        server: str | None = None,
        code: int | None = None,
        entities: Sequence[Entity] = (),
        more: str = "",
    ) -> None:
        self.problem = problem  # what is wrong; the whole message when there is no remedy
        self.remedy = None if remedy is None else remedy.rstrip(".")  # what to do, if that is known
        self.cluster = cluster  # what messages call the cluster
        self.server = server  # the broker that it is about, as `host:port`
        self.code = code  # the broker's error code, if it gave one
        self.entities = tuple(entities)  # the entities that it is about
        super().__init__((problem if remedy is None else f"{problem}{self.joint}{remedy}") + more)

    def with_more(self, words: str) -> Self:
        """Return this error with words at the end of its message; what it carries stays."""
        error = copy(self)
        error.args = (f"{self}{printable(words)}",)
        return error


class ConnectError(ClusterError):
    """No usable connection to any of the bootstrap servers."""


class AuthenticationError(ClusterError):
    """The broker did not accept the credentials."""


class AuthorizationError(ClusterError):
    """The principal is not authorised to describe or alter client quotas (CLUSTER_AUTHORIZATION_FAILED, 31)."""

    joint = ": "


class InvalidRequestError(ClusterError):
    """The broker refused the content of a request (INVALID_REQUEST, 42)."""


class PolicyError(ClusterError):
    """The broker's limits or its policy refused a request (POLICY_VIOLATION, 44)."""


class UnsupportedError(ClusterError):
    """The broker is too old for this request or does not know an entity type (UNSUPPORTED_VERSION, 35)."""


class UnknownOutcomeError(ClusterError):
    """It cannot be known whether a change was made: a timeout, a lost connection, or code -1 or 7."""


class UnsettledError(ClusterError):
    """The quotas kept changing while they were read."""

    def __init__(self, cluster: str, seconds: float) -> None:
        self.seconds = seconds  # for how long
        super().__init__(
            f"the quotas of {cluster} kept changing for {seconds:.0f} s while they were read",
            remedy="wait until the changes are complete, then try again",
            cluster=cluster,
        )


class NotReadError(ClusterError):
    """The run was interrupted before the turn of a cluster came."""

    exit_code = ExitCode.INTERRUPTED


class HttpError(QuotaformError):
    """A server cannot be reached by HTTP, or its answer is an error or cannot be used.

    The message names the server alone: the path of a URL, its query and headers may be secrets.
    """

    def __init__(
        self,
        host: str,
        problem: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        may_have_arrived: bool = True,
        may_pass: bool = False,
    ) -> None:
        self.host = host  # the server, as `https://host:port`
        self.problem = problem  # what is wrong, as the rest of a sentence about it
        self.status = status  # the status of the answer, if there was one
        self.retry_after = retry_after  # after how many seconds the server says to come again, if it does
        self.may_have_arrived = may_have_arrived  # whether the server may have done what it was asked
        self.may_pass = may_pass  # whether the same request may succeed a moment later
        super().__init__(f"{host} {problem}")


class MetricsError(QuotaformError):
    """A source of measurements does not answer, or its answer cannot be used."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source  # what messages call it
        self.problem = problem  # what is wrong, as the rest of a sentence about it
        super().__init__(f"{source} {problem}")


class NothingReadError(QuotaformError):
    """No source of measurements answered."""

    def __init__(self, cluster: str, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)  # why, per broker
        which = "the source" if len(problems) == 1 else f"none of {len(problems):,} sources"
        lines = _first((f"  broker {broker}: {problem}" for broker, problem in problems.items()), len(problems))
        verb = "cannot be read" if len(problems) == 1 else "can be read"
        super().__init__(f"{which} of cluster {cluster} {verb}:", *lines)


class ApplyRunningError(QuotaformError):
    """Another apply to a cluster is running in this directory; nothing was written."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster  # what messages call the cluster
        super().__init__(
            f"another apply to cluster {cluster} is running in this directory, so nothing was written; wait until it "
            "ends, then make a new plan"
        )


class HistoryError(QuotaformError):
    """A history cannot be read or written, or does not reach back far enough."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.path = path  # where it is, as it was given
        self.problem = problem  # why it cannot be used
        self.remedy = remedy  # what to do
        super().__init__(f"the history {path} cannot be used: {problem}; {remedy}.")


class StreamError(QuotaformError):
    """A stream of usage cannot begin or go on."""

    def __init__(self, checkpoint: str, problem: str, remedy: str) -> None:
        self.checkpoint = checkpoint  # the folder of its checkpoint, as it was given
        self.problem = problem  # why it cannot
        self.remedy = remedy  # what to do
        super().__init__(f"the stream of the checkpoint {checkpoint} cannot go on: {problem}; {remedy}.")


class SandboxError(QuotaformError):
    """The local Apache Kafka could not be had, started or stopped."""


class EngineError(QuotaformError):
    """The Spark engine could not be had: the extra or a JDK is missing."""
