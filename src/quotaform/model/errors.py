"""Every error that quotaform raises, in one tree.

An error carries what it is about as attributes and builds its message from them: what is wrong, where, and what to do.
`exit_code` is that of a process that ends with this error alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import IntEnum
from re import compile as regex
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

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


_SEVERITY: Final = (143, 130, 6, 5, 64, 1, 3, 4, 2, 0)
"""The codes, that which matters most first."""


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
        super().__init__("\n".join(map(printable, lines)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the attributes: constructors take other things than a message."""
        return __newobj__, (type(self), *self.args), vars(self)


NEW_PLAN: Final = f"Make a new plan (quotaform plan {option_of('out')} plan.json) and review it."
"""The last line of an error about a plan that must not be applied any more."""


def first_lines(lines: Sequence[str], most: int = 20) -> list[str]:
    """Return the first lines of a list, indented, and how many more there are.

    >>> first_lines(["a", "b", "c"], 2)
    ['  a', '  b', '  ... and 1 more']
    """
    more = [f"  ... and {len(lines) - most:,} more"] if len(lines) > most else []
    return [*(f"  {line}" for line in lines[:most]), *more]


class UsageError(QuotaformError):
    """Something that does not exist is named, or arguments exclude each other."""

    exit_code = ExitCode.USAGE


@contextmanager
def as_usage_error(before: str = "", after: str = "") -> Iterator[None]:
    """Raise a `UsageError` with the words of a `ValueError` of a block."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{before}{error}{after}") from None


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


class InvalidFilesError(QuotaformError):
    """One or more files are invalid; all problems of all files are in `problems`."""

    exit_code = ExitCode.INVALID

    def __init__(self, problems: Sequence[Finding]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems):,} problem{'' if len(self.problems) == 1 else 's'}"
        super().__init__(*map(str, self.problems), f"{count} found; invalid files are never applied.")


class FileReadError(QuotaformError):
    """A file cannot be read; what follows from that is up to the caller."""

    def __init__(self, path: str, reason: str, *, is_missing: bool = False) -> None:
        self.path = path  # the file
        self.reason = reason  # why, in the words of the operating system
        self.is_missing = is_missing  # whether there is no such file
        super().__init__(f"{path} cannot be read: {reason}")


class BaseError(QuotaformError):
    """The base of a plan, or the baseline of a drift check, cannot be read."""

    def __init__(self, ref: str, reason: str, role: str = "base") -> None:
        self.ref = ref  # the git revision or the receipt, as it was given
        self.reason = reason  # why, with what to do if that is known
        super().__init__(f"the {role} {ref} cannot be read: {reason}")


class SavedFileError(QuotaformError):
    """A file that quotaform writes cannot be used: truncated, of another kind, or of an unknown major version."""

    exit_code = ExitCode.INVALID

    def __init__(self, file: str, problem: str) -> None:
        self.problem = problem  # what is wrong with it and what to do
        super().__init__(f"{file} {problem}")


class BlockedError(QuotaformError):
    """Refused before anything was written."""

    exit_code = ExitCode.BLOCKED

    def __init__(self, *lines: str, rules: Iterable[str] = (), reason: str = "refused") -> None:
        self.rules = tuple(sorted(set(rules)))  # the rules that block it
        self.reason = reason  # why, as programs read it, if it is not for rules
        super().__init__(*lines)


class ClusterIdError(BlockedError):
    """A cluster is not the one pinned in quotaform.yaml."""

    def __init__(self, finding: Finding, *, is_reading: bool = False) -> None:
        super().__init__(f"{finding.message}{'' if is_reading else ' Nothing was written.'}", rules=[finding.rule])


class PlanBlockedError(BlockedError):
    """Findings of a plan, which are in `findings`, block it."""

    def __init__(self, findings: Sequence[Finding], lines: Iterable[str] = ()) -> None:
        """Build the message; `lines` show the findings, and what allows them."""
        self.findings = tuple(findings)
        shown = list(lines) or [f"  {each.rule}: {each.message}" for each in self.findings]
        if any(finding.allowance is not None for finding in self.findings):
            shown.append("Correct the files, or plan again and allow what is meant.")
        super().__init__(
            "the plan is blocked and nothing was written:", *shown, rules=[finding.rule for finding in findings]
        )


class NotApprovedError(BlockedError):
    """Nobody approved a change."""

    def __init__(self, problem: str = "not approved", *, remedy: str | None = None) -> None:
        text = f"{problem}; nothing was written{'' if remedy is None else f'; {remedy}'}"
        super().__init__(text, reason="not-approved")


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
        super().__init__(
            f"the plan has id {found}, not the expected {expected}, so nothing was written: the cluster, the files or "
            "the allowances are not those of the review; review the new plan"
        )


class OtherClusterError(StaleError):
    """A plan or a receipt is about another cluster."""

    def __init__(self, file: Literal["plan", "receipt"], expected: str, found: str) -> None:
        remedy = f"nothing was written: check the bootstrap servers, or give a {file} of this one"
        super().__init__(f"the {file} is of cluster {expected}, but this is cluster {found}; {remedy}")


class PartialError(QuotaformError):
    """Some changes were written, and some are not in effect."""

    exit_code = ExitCode.PARTIAL

    def __init__(self, problem: str, entities: Sequence[Entity] = ()) -> None:
        self.entities = tuple(entities)  # the entities that were not seen to hold what was written
        super().__init__(problem)


class ApplyLostError(PartialError):
    """What applied a plan elsewhere was lost, so that its changes may be in effect: all, some or none of them."""

    def __init__(self, why: str, receipt: str | None = None) -> None:
        known = "" if receipt is None else f"; what was intended or done is in the receipt {receipt}"
        super().__init__(
            f"{why}, so it is not known how the apply ended: its changes may be in effect, now or within a minute"
            f"{known}. Nothing is rolled back. Run the same command again to complete the apply; quotaform plan shows "
            "what is left."
        )


class ClusterError(QuotaformError):
    """A cluster could not be read or changed."""

    def __init__(
        self,
        problem: str,
        *,
        remedy: str | None = None,
        cluster: str | None = None,
        server: str | None = None,
        code: int | None = None,
        entities: Sequence[Entity] = (),
    ) -> None:
        self.problem = problem  # what is wrong; the whole message when there is no remedy
        self.remedy = None if remedy is None else remedy.rstrip(".")  # what to do, if that is known
        self.cluster = cluster  # what messages call the cluster
        self.server = server  # the broker that it is about, as `host:port`
        self.code = code  # the broker's error code, if it gave one
        self.entities = tuple(entities)  # the entities that it is about
        super().__init__(problem if remedy is None else f"{problem}; {remedy}")

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


class InvalidRequestError(ClusterError):
    """The broker refused the content of a request (INVALID_REQUEST, 42)."""


class PolicyError(ClusterError):
    """The broker's limits or its policy refused a request (POLICY_VIOLATION, 44)."""


class UnsupportedError(ClusterError):
    """The broker is too old for this request or does not know an entity type (UNSUPPORTED_VERSION, 35)."""


class UnknownOutcomeError(ClusterError):
    """It cannot be known whether a change was made: a timeout, a lost connection, or code -1 or 7."""


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
        self.problem = problem  # what is wrong, as the rest of a sentence about it
        super().__init__(f"{source} {problem}")


class HistoryError(QuotaformError):
    """A history cannot be read or written, or does not reach back far enough."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.problem = problem  # why it cannot be used
        super().__init__(f"the history {path} cannot be used: {problem}; {remedy}.")


class StreamError(QuotaformError):
    """A stream of usage cannot begin or go on."""

    def __init__(self, checkpoint: str, problem: str, remedy: str) -> None:
        super().__init__(f"the stream of the checkpoint {checkpoint} cannot go on: {problem}; {remedy}.")


class SandboxError(QuotaformError):
    """The local Apache Kafka could not be had, started or stopped."""


class EngineError(QuotaformError):
    """The Spark engine could not be had: the extra or a JDK is missing."""
