"""A plan file that somebody changed and sealed again is refused in one sentence, or does what the original does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from json import dumps, loads
from random import Random
from typing import Any

import pytest

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError, StaleError
from quotaform.model.finding import Allowance
from quotaform.model.records.document import digest
from quotaform.plan.plan import Plan
from quotaform.plan.records import PLAN_LISTS, load_plan
from tests.builder import CONSUMER, PRODUCER, REQUEST, dumped_plan, plan_of, sealed

pytestmark = pytest.mark.exhaustive

Path = tuple[str | int, ...]

END = "\n}\n"
ALICE, DEFAULT = Entity(user="alice"), Entity(user=None)
ORIGINAL = plan_of(
    {
        ALICE: {PRODUCER: 2048.0, CONSUMER: 5.0},
        Entity(user="bob", client_id=None): {REQUEST: 12.5},
        Entity(user="old"): {},
        Entity(user="same"): {PRODUCER: 7.0},
    },
    {
        ALICE: {PRODUCER: 1024.0, CONSUMER: 5.0},
        DEFAULT: {PRODUCER: float("nan")},
        Entity(user="old"): {PRODUCER: 1.0},
        Entity(user="same"): {PRODUCER: 7.0},
    },
    allowances=(Allowance("delete", 12),),
)
DOCUMENT: dict[str, Any] = loads(dumped_plan(ORIGINAL))

DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7.5, 1e300, 5e-324, 10**400, 2**63, float("inf"), float("nan"),
    "", "x", "NaN", "-Infinity", "a\n::error::b", "\ud800", "\x1b[31m", "x" * 10_000, "create", "delete", "loosen",
    "user=alice", "sha256:" + "0" * 64, "2026-02-30", [], [None], [[]], {}, {"user": "mallory"}, {"": None},
    {"\ud800": "x"}, {"a\n": 1}, {PRODUCER: 1}, DEEP,
)  # fmt: skip
"""What is put in the place of each value."""


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where every value of a document is."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield from paths(item, (*path, step))


def at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def sealed_again(document: dict[str, Any]) -> str:
    """The document as somebody writes it who computes both digests again, as far as they can be computed."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        document["plan_id"] = digest(
            {
                "allowances": document["allowances"],
                "changes": sorted(
                    [change["address"], row["key"], row["action"], row["before"], row["after"]]
                    for change in document["changes"]
                    for row in change["keys"]
                ),
                "cluster_id": document["cluster"]["id"],
            }
        )
    document.pop("digest", None)
    try:
        return sealed(document, PLAN_LISTS)
    except (ValueError, RecursionError):
        return dumps(document)


def require_harmless(text: str, what: str) -> None:
    """Load a plan file: it is refused in one sentence, or it is a plan as planning makes them."""
    try:
        plan = load_plan(text, "plan.json")
    except (SavedFileError, StaleError) as error:
        message = str(error)
        assert message.startswith("plan.json "), what
        assert message.isprintable(), what
        assert len(message) < 300, what
        return
    require_consistent(plan, what)


def require_consistent(plan: Plan, what: str) -> None:
    """What apply decides by follows from the rows, which the plan id covers."""
    assert len({change.entity for change in plan.changes}) == len(plan.changes), what
    for change in plan.changes:
        ops = {row.key: row.after for row in change.changes}
        assert change.alteration().ops == ops, what
        for row in change.changes:
            assert change.before.get(row.key) == row.before, what
            assert change.after.get(row.key) == row.after, what
    again = dumped_plan(plan)
    assert dumped_plan(load_plan(again, "plan.json")) == again, what


@pytest.mark.parametrize("path", [path for path in paths(DOCUMENT) if path], ids=lambda path: ".".join(map(str, path)))
def test_no_value_in_any_place_is_an_internal_error(path: Path) -> None:
    """Eight fields with a value of another type, sealed again, ended in an internal error."""
    for value in VALUES:
        document = loads(dumps(DOCUMENT))
        at(document, path[:-1])[path[-1]] = value
        require_harmless(sealed_again(document), f"{path}: {value!r:.60}")
    document = loads(dumps(DOCUMENT))
    del at(document, path[:-1])[path[-1]]
    require_harmless(sealed_again(document), f"without {path}")


def test_what_blocks_a_plan_is_part_of_its_id() -> None:
    """Somebody could take a finding out of a blocked plan: with the id of the approved plan it was applied."""
    blocked = plan_of({ALICE: {PRODUCER: 1.0}}, {}, findings=(rule.CLUSTER_ID.finding("pinned to another"),))
    document = loads(dumped_plan(blocked))
    assert blocked.plan_id != plan_of({ALICE: {PRODUCER: 1.0}}, {}).plan_id
    document["findings"][0]["blocking"] = False
    document.update(applyable=True, allowances=[])
    document["summary"]["blocked"] = 0
    with pytest.raises(SavedFileError, match=r"findings\[0\]\.blocking contradicts the rule"):
        load_plan(sealed_again(document), "plan.json")


def sealed_text(content: str) -> str:
    """A text with the digest that belongs to it, whatever it is."""
    return f'{content},\n  "digest": "sha256:{sha256((content + END).encode()).hexdigest()}"{END}'


def test_bytes_changed_at_random_and_sealed_again_are_no_internal_error() -> None:
    """Whatever bytes a file holds, it ends in a plan or in one sentence."""
    choose = Random(7)
    content = dumped_plan(ORIGINAL).rpartition(',\n  "digest"')[0]
    for _ in range(600):
        text = content
        for _ in range(choose.randint(1, 4)):
            place, other = choose.randrange(len(text)), choose.randrange(len(text))
            piece = choose.choice(['"', "{", "[", "null", "1e999", "\\ud800", ",", "-", "\n", text[other : other + 40]])
            text = text[:place] + piece + text[place + choose.choice([0, 0, 1, 20]) :]
        require_harmless(sealed_text(text), text)
