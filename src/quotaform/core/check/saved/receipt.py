"""What no apply notes, so that a receipt which says it was not written by an apply."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.change import Action
from quotaform.core.check.saved.plan import Problem, entity_problems, value_problem
from quotaform.core.receipt import Result, SavedReceipt, SavedResult
from quotaform.model.quotas import same_value


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


def _result_problems(item: SavedResult) -> Iterator[Problem]:
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
