"""The receipt of an apply as JSON, refused if it was modified.

Format 1.3, `schemas/receipt.schema.json`. Like a plan file, it is verified when it is loaded, see
`quotaform.plan.sealed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, Self

from quotaform.model.entity import Entity
from quotaform.model.errors import ReceiptFileChangedError, ReceiptFileError
from quotaform.model.finding import Allowance
from quotaform.model.quotas import Action, Change, same_value
from quotaform.model.records.document import RECEIPT, json_number, sealed_lines
from quotaform.model.records.field import (
    Address,
    ApprovalRecord,
    ClusterRecord,
    Names,
    QuotaKeyName,
    load_number,
)
from quotaform.model.records.record import (
    UNSET,
    Count,
    Digest,
    Record,
    ShapeError,
    Timestamp,
    UnsetType,
    Value,
    about,
    given,
    load_items,
    omitted,
    readable,
)
from quotaform.plan.check.saved import Problem, entity_problems, value_problem
from quotaform.plan.receipt import EntityResult, Receipt, Result, Run, SavedReceipt
from quotaform.plan.records import OptionsRecord, SourceRecord, dump_declared, load_declared
from quotaform.plan.sealed import SealedFormat, read_sealed, sealed_fields


class RowRecord(Record):
    """The planned change of one quota key; the result says whether it is in effect."""

    key: QuotaKeyName
    before: Annotated[Value | None, about("The live value before the apply, or null.")]
    after: Annotated[Value | None, about("The value after the apply, or null if the key is removed.")]


class EntityResultRecord(Record):
    """The result for one entity."""

    address: Address
    entity: Names
    action: Annotated[Action, about("create: no value before; update: another value before; delete: no value after.")]
    result: Annotated[
        Result,
        about(
            "applied: written and read back. already-applied: already as planned before the apply. refused: rejected "
            "by the broker; not changed. unconfirmed: accepted, but not visible before the time limit. overwritten: "
            "accepted, but changed by somebody else since. unknown: no response; the change may be in effect, now or "
            "later. not-attempted: not sent."
        ),
    ]
    message: Annotated[str | None, about("The message of the broker or the reason; null on success.")]
    keys: Annotated[
        list[RowRecord] | UnsetType,
        about("The quota keys that the plan changes, with the values before and after; omitted before version 1.1."),
    ] = UNSET

    @classmethod
    def of(cls, item: EntityResult) -> Self:
        """Return the record."""
        entity = item.entity
        rows = [
            RowRecord(key=row.key, before=json_number(row.before), after=json_number(row.after)) for row in item.rows
        ]
        return cls(
            address=entity.address,
            entity=entity.names,
            action=item.action,
            result=item.result,
            message=item.message or None,
            keys=rows or UNSET,
        )

    def load(self) -> EntityResult:
        """Return the result."""
        entity = Entity(self.entity)
        rows = [
            Change(entity, row.key, load_number(row.before), load_number(row.after)) for row in given(self.keys) or ()
        ]
        return EntityResult(entity, self.action, self.result, self.message or "", tuple(rows))


class ReceiptRecord(Record, document=RECEIPT):
    """The result of applying a plan, as quotaform apply writes it."""

    plan_id: Annotated[Digest, about("The id of the applied plan.")]
    state: Annotated[
        Literal["started"] | UnsetType,
        about(
            "started: written before the first change was sent, and never completed, so that the apply was killed or "
            "is running; results say what was intended. Omitted once the apply has ended."
        ),
    ] = UNSET
    cluster: ClusterRecord
    source: Annotated[SourceRecord, about("Where the files came from; base is omitted if there is none.")]
    options: Annotated[OptionsRecord | UnsetType, about("The options of the plan; omitted before version 1.2.")] = UNSET
    allowances: Annotated[list[str], about("The rules allowed for the plan, as RULE or RULE=N.")]
    approvals: Annotated[
        list[ApprovalRecord] | UnsetType,
        about("The approvals of approvals.yaml that the plan depended on; omitted if there are none."),
    ] = UNSET
    applied_by: Annotated[str, about("The user, according to the operating system.")]
    run: Annotated[Run | UnsetType, about("Omitted outside CI.")] = UNSET
    started_at: Annotated[Timestamp, about("When it began, as ISO 8601 in UTC.")]
    finished_at: Annotated[Timestamp, about("When it ended, as ISO 8601 in UTC.")]
    interrupted_by: Annotated[str | None, about("The signal that interrupted the apply, or null.", "SIGINT")]
    complete: Annotated[bool, about("Whether all changes of the plan are in effect.")]
    summary: Annotated[dict[Result, Count], about("The number of entities per result.")]
    declared: Annotated[
        list[Address] | UnsetType,
        about(
            "The addresses of all entities that the files declared for the cluster, selected or not, sorted. Omitted "
            "before version 1.1."
        ),
    ] = UNSET
    results: Annotated[list[EntityResultRecord], about("One item per entity of the plan, in its order.")]
    digest: Annotated[Digest, about("A digest of everything else in this file.")] = ""

    def load(self) -> SavedReceipt:
        """Return the receipt. Raises `ShapeError` if it holds what no apply notes."""
        with readable():
            results = tuple(load_items("results", self.results, EntityResultRecord.load))
            options = given(self.options)
            receipt = SavedReceipt(
                plan_id=self.plan_id,
                cluster_name=self.cluster.name,
                cluster_id=self.cluster.id,
                source=self.source.load(),
                options=None if options is None else options.load(),
                allowances=tuple(map(Allowance.parse, self.allowances)),
                approvals=tuple(load_items("approvals", given(self.approvals) or (), ApprovalRecord.load)),
                applied_by=self.applied_by,
                run=given(self.run),
                started_at=self.started_at,
                finished_at=self.finished_at,
                interrupted_by=self.interrupted_by,
                is_started=self.state is not UNSET,
                declared=load_declared(self.declared, {item.entity.address: item.entity for item in results}),
                results=results,
            )
        if problem := saved_receipt_problem(receipt):
            raise ShapeError(*problem)
        return receipt


RECEIPT_LISTS: Final = frozenset(("declared", "results"))
"""The fields of a receipt with a line per item."""

HEAD: Final = 512
"""In how many bytes at its start a receipt says whether it is a started one."""

_FORMAT: Final = SealedFormat(
    kind=RECEIPT,
    record=ReceiptRecord,
    lists=RECEIPT_LISTS,
    noun="receipt",
    command="quotaform apply",
    remedy="use the file that quotaform apply wrote",
    unreadable=ReceiptFileError,
    changed=ReceiptFileChangedError,
)


def receipt_lines(receipt: Receipt | SavedReceipt) -> Iterator[str]:
    """Yield a receipt as JSON in pieces, one line per entity."""
    saved = receipt.saved() if isinstance(receipt, Receipt) else receipt
    return sealed_lines(_fields(saved), RECEIPT_LISTS)


def is_started_head(content: bytes) -> bool:
    """Whether a file that begins like this (`HEAD`) is a started receipt, written by `receipt_lines`."""
    return b'\n  "state": "started",\n' in content


def _fields(receipt: SavedReceipt) -> Iterable[tuple[str, Any]]:
    tally = receipt.tally
    record = ReceiptRecord(
        plan_id=receipt.plan_id,
        state="started" if receipt.is_started else UNSET,
        cluster=ClusterRecord(name=receipt.cluster_name, id=receipt.cluster_id),
        source=SourceRecord.of(receipt.source, omits_base=True),
        options=UNSET if receipt.options is None else OptionsRecord.of(receipt.options),
        allowances=list(map(str, receipt.allowances)),
        approvals=[ApprovalRecord.of(each) for each in receipt.approvals] or UNSET,
        applied_by=receipt.applied_by,
        run=omitted(receipt.run),
        started_at=receipt.started_at,
        finished_at=receipt.finished_at,
        interrupted_by=receipt.interrupted_by,
        complete=receipt.is_complete,
        summary={result: tally.get(result, 0) for result in Result},
        declared=dump_declared(receipt.declared),
        results=[],
    )
    return sealed_fields(record, results=map(EntityResultRecord.of, receipt.results))


def load_receipt(text: str | bytes, file: str) -> SavedReceipt:
    """Read a receipt and make sure that it is one, and the one that was written.

    Raises `ReceiptFileError` or `ReceiptFileChangedError`.
    """
    content = text.encode(errors="replace") if isinstance(text, str) else text
    return read_sealed(content, file, _FORMAT, ReceiptRecord.load, _fields)


def saved_receipt_problem(receipt: SavedReceipt) -> Problem | None:
    """Return the first thing that a receipt holds and no apply notes; `None` if there is none.

    | what | must be |
    | --- | --- |
    | an entity | in one result at most |
    | its types and names | such as files can declare |
    | its result, before anything was sent | unknown or already-applied |
    | a row | a change of a known key, which comes once, to another value that files can declare |
    | the rows of a creation | without a value before |
    | the rows of a deletion | without a value after |
    """
    return next(_problems(receipt), None)


def _problems(receipt: SavedReceipt) -> Iterator[Problem]:
    seen = set()
    for index, item in enumerate(receipt.results):
        if item.entity in seen:
            yield f"results[{index}].entity", "is also in another result"
        seen.add(item.entity)
        if receipt.is_started and item.result not in (Result.UNKNOWN, Result.ALREADY_APPLIED):
            yield f"results[{index}].result", "contradicts the state"
        for field, problem in _result_problems(item):
            yield f"results[{index}].{field}", problem


def _result_problems(item: EntityResult) -> Iterator[Problem]:
    yield from entity_problems(item.entity)
    if len({row.key for row in item.rows}) < len(item.rows):
        yield "keys", "has a key twice"
    for index, row in enumerate(item.rows):
        if problem := value_problem(item.entity.types, row.key, row.after):
            yield f"keys[{index}].{problem[0]}", problem[1]
        if same_value(row.before, row.after):
            yield f"keys[{index}]", "changes nothing"
        if (item.action is Action.CREATE and row.before is not None) or (
            item.action is Action.DELETE and row.after is not None
        ):
            yield f"keys[{index}]", "contradicts the action"
