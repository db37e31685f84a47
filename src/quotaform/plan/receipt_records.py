"""The receipt of an apply as JSON, refused if it was modified.

Format 1.3, `schemas/receipt.schema.json`. Like a plan file, it is verified when it is loaded: its digest, schema,
derived fields and contents are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import ReceiptFileChangedError, ReceiptFileError
from quotaform.model.finding import Allowance
from quotaform.model.quotas import Action, Change, same_value
from quotaform.model.records.document import RECEIPT, envelope, json_number, sealed_lines
from quotaform.model.records.field import (
    dump_approval,
    dump_base,
    dump_cluster,
    dump_entity,
    load_approval,
    load_base,
    load_number,
)
from quotaform.model.records.validator import ShapeError, loaded_items, readable, require_shape
from quotaform.plan.check.saved import Problem, entity_problems, value_problem
from quotaform.plan.plan import PlanSource
from quotaform.plan.receipt import EntityResult, Receipt, Result, Run, SavedReceipt
from quotaform.plan.records import dump_options, load_options
from quotaform.plan.sealed_content import SealedContent, SealedFormat, Strict

T = TypeVar("T")

RECEIPT_LISTS: Final[Mapping[str, str]] = {"declared": "address", "results": "result"}
"""The fields of a receipt with a line per item, and the definition of an item in the schema."""

HEAD: Final = 512
"""In how many bytes at its start a receipt says whether it is a started one."""

_FORMAT: Final = SealedFormat(
    kind=RECEIPT,
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
    return sealed_lines(_fields(saved).items(), RECEIPT_LISTS)


def is_started_head(content: bytes) -> bool:
    """Whether a file that begins like this (`HEAD`) is a started receipt, written by `receipt_lines`."""
    return b'\n  "state": "started",\n' in content


def _fields(receipt: SavedReceipt) -> dict[str, Any]:
    tally = receipt.tally
    fields: dict[str, Any] = {
        "plan_id": receipt.plan_id,
        **({"state": "started"} if receipt.is_started else {}),
        "cluster": dump_cluster(receipt.cluster_name, receipt.cluster_id),
        "source": {
            "directory": receipt.source.directory,
            "commit": receipt.source.commit,
            "dirty": receipt.source.dirty,
            **({} if receipt.source.base is None else {"base": dump_base(receipt.source.base)}),
        },
        **({} if receipt.options is None else {"options": dump_options(receipt.options)}),
        "allowances": list(map(str, receipt.allowances)),
        **({"approvals": list(map(dump_approval, receipt.approvals))} if receipt.approvals else {}),
        "applied_by": receipt.applied_by,
        **({} if receipt.run is None else {"run": dump_run(receipt.run)}),
        "started_at": receipt.started_at,
        "finished_at": receipt.finished_at,
        "interrupted_by": receipt.interrupted_by,
        "complete": receipt.is_complete,
        "summary": {result.value: tally.get(result, 0) for result in Result},
        **({} if receipt.declared is None else {"declared": sorted(entity.address for entity in receipt.declared)}),
        "results": map(_dump_result, receipt.results),
    }
    return envelope(RECEIPT, fields)


def _dump_result(item: EntityResult) -> dict[str, Any]:
    rows = [{"key": row.key, "before": json_number(row.before), "after": json_number(row.after)} for row in item.rows]
    return {
        **dump_entity(item.entity),
        "action": item.action.value,
        "result": item.result.value,
        "message": item.message or None,
        **({"keys": rows} if rows else {}),
    }


def dump_run(run: Run) -> dict[str, str | None]:
    """Return the job of a CI system as JSON holds it."""
    return {"system": run.system, "url": run.url, "actor": run.actor}


def load_receipt(text: str | bytes, file: str) -> SavedReceipt:
    """Read a receipt and make sure that it is one, and the one that was written.

    Raises `ReceiptFileError` or `ReceiptFileChangedError`.
    """
    content = SealedContent(text.encode(errors="replace") if isinstance(text, str) else text, file, _FORMAT)
    return content.read(lambda document, strict: _checked(content, document, strict))


def _checked(content: SealedContent, document: Mapping[str, Any], strict: Strict) -> SavedReceipt:
    from quotaform.plan.schema import receipt as receipt_schema

    require_shape(document, receipt_schema, RECEIPT_LISTS)
    with readable():
        receipt = _receipt(document)
    if problem := saved_receipt_problem(receipt):
        raise ShapeError(*problem)
    content.require_written(lambda: _fields(receipt), strict)
    return receipt


def _receipt(document: Mapping[str, Any]) -> SavedReceipt:
    source, run = document["source"], document.get("run")
    results = tuple(_items(document, "results", _load_result))
    known = {item.entity.address: item.entity for item in results}
    declared = _items(document, "declared", lambda address: known.get(address) or parse_address(address))
    return SavedReceipt(
        plan_id=document["plan_id"],
        cluster_name=document["cluster"]["name"],
        cluster_id=document["cluster"]["id"],
        source=PlanSource(
            directory=source["directory"],
            commit=source["commit"],
            dirty=source["dirty"],
            base=load_base(source.get("base")),
        ),
        options=load_options(document["options"]) if "options" in document else None,
        allowances=tuple(map(Allowance.parse, document["allowances"])),
        approvals=tuple(map(load_approval, document.get("approvals", ()))),
        applied_by=document["applied_by"],
        run=None if run is None else Run(run["system"], run["url"], run["actor"]),
        started_at=document["started_at"],
        finished_at=document["finished_at"],
        interrupted_by=document["interrupted_by"],
        is_started="state" in document,
        declared=frozenset(declared) if "declared" in document else None,
        results=results,
    )


def _load_result(item: Mapping[str, Any]) -> EntityResult:
    entity = Entity(item["entity"])
    rows = (
        Change(entity, row["key"], load_number(row["before"]), load_number(row["after"]))
        for row in item.get("keys", ())
    )
    return EntityResult(entity, Action(item["action"]), Result(item["result"]), item["message"] or "", tuple(rows))


def _items(document: Mapping[str, Any], name: str, load: Callable[[Any], T]) -> Iterator[T]:
    from quotaform.plan.schema import receipt as receipt_schema

    return loaded_items(document, name, load, receipt_schema, RECEIPT_LISTS[name])


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
