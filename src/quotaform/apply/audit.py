"""The audit log: the file that every apply appends to, one JSON object per line for what it did or was refused; and who
applies. `docs/apply.md` describes the lines.

A `start` without an `end` means that the apply was killed. Lines are ASCII, so no name can move the cursor of a
terminal or start a new line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path
from re import compile as regex
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import Kept, loaded
from quotaform.model.quotas import ActionName
from quotaform.model.records.document import json_line
from quotaform.model.records.record import (
    UNSET,
    Address,
    ClusterRecord,
    Count,
    Digest,
    Double,
    QuotaKeyName,
    Record,
    Timestamp,
    UnsetType,
    about,
    builtins,
)
from quotaform.model.records.schema import Node, make_schema
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, Result, Run, counted_results
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.files import require_no_way_out, writing
from quotaform.system.process import signal_name

_LONGEST_VARIABLE: Final = 500
"""How many characters of a variable are kept."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0)
_ADDRESS: Final = regex(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[!-~]*)?").fullmatch


class Applier(Struct, frozen=True):
    """Who applies plans."""

    name: str  # The user, as the operating system says
    run: Run | None  # The job of a CI system, if it is one

    @classmethod
    def current(cls) -> Applier:
        """Return who runs this process."""
        try:
            name = getuser()
        except (KeyError, OSError):
            name = "unknown"
        return cls(name, read_run())


def read_run(variables: Mapping[str, str] = os.environ) -> Run | None:
    """Return the job that this process is part of; `None` outside of the known CI systems.

    The variables are text that anybody may have set: they are cut, and what is no web address, is too long or holds
    credentials is left out.

    >>> read_run({"GITLAB_CI": "true", "CI_JOB_URL": "https://gitlab.example/a/-/jobs/7", "GITLAB_USER_LOGIN": "ann"})
    Run(system='gitlab', url='https://gitlab.example/a/-/jobs/7', actor='ann')
    """
    if variables.get("GITHUB_ACTIONS") == "true":
        parts = [variables.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
        system, url = "github", "{}/{}/actions/runs/{}".format(*parts) if all(parts) else ""
        actor = variables.get("GITHUB_TRIGGERING_ACTOR") or variables.get("GITHUB_ACTOR", "")
    elif variables.get("GITLAB_CI") == "true":
        system, url = "gitlab", variables.get("CI_JOB_URL", "")
        actor = variables.get("GITLAB_USER_LOGIN", "")
    else:
        return None
    is_address = len(url) <= _LONGEST_VARIABLE and _ADDRESS(url)
    return Run(system=system, url=url if is_address else None, actor=actor[:_LONGEST_VARIABLE] or None)


class AuditRecord(Record, document="audit"):
    """One line of the file that quotaform apply --audit appends to: an apply begins, changes a quota key, or ends.
    A start without an end means that the apply was killed.
    """

    event: Annotated[Literal["start", "change", "end"], about("The kind of line.")]
    time: Annotated[Timestamp, about("When it was written, as ISO 8601 in UTC.")]
    cluster: ClusterRecord
    plan_id: Annotated[Digest, about("The id of the plan.")]
    commit: Annotated[str | None, about("The git commit of the files, or null outside of git.")]
    applied_by: Annotated[str, about("The user, according to the operating system.")]
    run: Annotated[Run | None, about("The CI job, or null outside CI.")]
    changes: Annotated[Count | UnsetType, about("For start: the number of quota keys that the plan changes.")] = UNSET
    allowances: Annotated[list[str] | UnsetType, about("For start: the rules allowed for the plan.")] = UNSET
    address: Address | UnsetType = UNSET
    entity: Entity | UnsetType = UNSET
    key: QuotaKeyName | UnsetType = UNSET
    action: ActionName | UnsetType = UNSET
    before: Annotated[Double | UnsetType | None, about("For change: the live value before the apply, or null.")] = UNSET
    after: Annotated[
        Double | UnsetType | None, about("For change: the value after the apply, or null if the key is removed.")
    ] = UNSET
    result: Annotated[Result | UnsetType, about("For change: the result for the entity, as in receipts.")] = UNSET
    message: Annotated[
        str | UnsetType | None, about("For change: the message of the broker or the reason; null on success.")
    ] = UNSET
    outcome: Annotated[
        Literal["complete", "incomplete", "refused"] | UnsetType,
        about("For end: complete: all changes are in effect; incomplete: not all are; refused: nothing was written."),
    ] = UNSET
    reason: Annotated[str | UnsetType | None, about("For end: why it was refused or interrupted, or null.")] = UNSET
    summary: Annotated[
        dict[Result, Count] | UnsetType | None,
        about("For end: the number of entities per result; null if nothing was written."),
    ] = UNSET


_FIELDS: Final = {
    "start": ["changes", "allowances"],
    "change": ["address", "entity", "key", "action", "before", "after", "result", "message"],
    "end": ["outcome", "reason", "summary"],
}


def audit() -> Node:
    """Return the schema of a line of the audit log."""
    rules: list[Node] = [
        {"if": {"properties": {"event": {"const": event}}}, "then": {"required": names}}
        for event, names in _FIELDS.items()
    ]
    return {**make_schema(AuditRecord), "allOf": rules}


class AuditFile:
    """Appends the lines about one run; without a file it does nothing.

    The file is never shortened, and what it holds is never written again.
    """

    def __init__(self, path: Path | None, clock: Clock = SYSTEM_CLOCK, applier: Applier | None = None) -> None:
        """Open the file, before anything else is done.

        `path` is the file; `None` if none was asked for. `applier` is who applies, if not who runs this process.
        Raises `QuotaformError` if it cannot be opened.
        """
        self._path = path
        self._clock = clock
        self._applier = applier or Applier.current()
        self._ended: set[str] = set()
        self._descriptor: int | None = None
        self._breaks_line = False  # The last line of a process that was killed may have no end.
        if path is None:
            return
        with writing(path, "; nothing was done: name another file"):
            require_no_way_out(path)
            self._descriptor = os.open(path, _FLAGS, 0o666)
            os.set_blocking(self._descriptor, True)
        with suppress(OSError):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    file.seek(-1, os.SEEK_END)
                    self._breaks_line = file.read(1) != b"\n"

    @contextmanager
    def refusals(self, plans: Iterable[Plan | Kept[Plan]]) -> Iterator[None]:
        """Note of each plan which has no end yet that it is refused, if that is how this block ends."""
        try:
            yield
        except (QuotaformError, KeyboardInterrupt) as error:
            reason = str(error) if isinstance(error, QuotaformError) else f"interrupted by {signal_name(error)}"
            for plan in () if self._descriptor is None else map(loaded, plans):
                if plan.header.cluster.name not in self._ended:
                    fields = {"outcome": "refused", "reason": _cut(reason), "summary": None}
                    self._end(plan, [self._line(plan, "end", timestamp(self._clock), **fields)])
            raise

    def start(self, given: Plan | Kept[Plan]) -> None:
        """Note that a plan is going to be applied.

        Raises `QuotaformError` if that cannot be written, so that nothing must be applied.
        """
        if self._descriptor is None:
            return
        plan = loaded(given)
        allowances = list(map(str, plan.allowances))
        with writing(self._path, "; nothing was written to the cluster"):
            time = timestamp(self._clock)
            self.append([self._line(plan, "start", time, changes=len(plan.rows), allowances=allowances)])

    def finish(self, receipt: Receipt) -> QuotaformError | None:
        """Note what was done to each key, and the outcome; return why that could not be written: it stays done."""
        return self._end(receipt.plan, self._done(receipt))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _done(self, receipt: Receipt) -> Iterator[str]:
        """Yield the lines about what was done: one for each key that the plan changes, and the outcome."""
        plan, time = receipt.plan, receipt.finished_at
        for item in receipt.results:
            for row in item.rows:
                yield self._line(
                    plan,
                    "change",
                    time,
                    address=item.entity.address,
                    entity=item.entity,
                    key=row.key,
                    action=row.action,
                    before=row.before,
                    after=row.after,
                    result=item.result,
                    message=_cut(item.message or ""),
                )
        outcome = "complete" if receipt.is_complete else "incomplete"
        reason = _cut(f"interrupted by {receipt.interruption}") if receipt.interruption else None
        yield self._line(plan, "end", time, outcome=outcome, reason=reason, summary=counted_results(receipt.results))

    def _line(self, plan: Plan, event: Literal["start", "change", "end"], time: str, **fields: Any) -> str:
        header = plan.header
        record = AuditRecord(
            event=event,
            time=time,
            cluster=header.cluster,
            plan_id=plan.plan_id,
            commit=header.source.commit,
            applied_by=self._applier.name,
            run=self._applier.run,
            **fields,
        )
        return f"{json_line(builtins(record))}\n"

    def _end(self, plan: Plan, lines: Iterable[str]) -> QuotaformError | None:
        self._ended.add(plan.header.cluster.name)
        try:
            with writing(self._path, "; what was done is in the receipt"):
                self.append(lines)
        except QuotaformError as error:
            return error
        return None

    def append(self, lines: Iterable[str]) -> None:
        """Append lines, each by a write of its own, and make them last through a power cut.

        `lines` each end with a line break. Raises `OSError` if they could not be written; some of them may have
        been.
        """
        if self._descriptor is None:
            return
        for line in lines:
            data = (f"\n{line}" if self._breaks_line else line).encode()
            self._breaks_line = False
            while data:
                data = data[os.write(self._descriptor, data) :]
        with suppress(OSError):  # A pipe and a terminal cannot.
            os.fsync(self._descriptor)


def _cut(text: str) -> str | None:
    return text[:1_000] or None  # Lines have a limit.
