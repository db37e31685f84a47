"""A plan file is what was written, or it is refused; one that is changed and sealed again does what the first does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from json import dumps, loads
from random import Random
from typing import Any

import pytest
from msgspec import structs

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError, StaleError
from quotaform.model.finding import Allowance, Finding
from quotaform.model.quotas import Base, DeclaredBase, Values
from quotaform.model.records.document import digest
from quotaform.model.scope import Pattern
from quotaform.model.settings import CountLimit, GuardLimits, PruneMode
from quotaform.plan.plan import ChangeOrigin, Plan, PlanOptions
from quotaform.plan.records import PLAN_LISTS, load_plan
from tests.builder import CONSUMER, PRODUCER, REQUEST, declare, dumped_plan, guarded, plan_of, sealed

ALICE, BOB, CAROL = Entity(user="alice"), Entity(user="bob", client_id=None), Entity(user="carol")
NAN = float("nan")
END = "\n}\n"

Edit = Callable[[dict[str, Any]], object]

PLAN = plan_of(
    {ALICE: {"producer_byte_rate": 2048.0, "consumer_byte_rate": 5.0}, BOB: {"request_percentage": 12.5}},
    {ALICE: {"producer_byte_rate": 1024.0, "consumer_byte_rate": 5.0}, Entity(user="by-hand"): {"future_rate": 1.0}},
    findings=(Finding(rule="nan-value", message="no number"),),
)
TEXT = dumped_plan(PLAN)


def signed(document: dict[str, Any]) -> str:
    """The document as a file whose digest is right."""
    return sealed(document, PLAN_LISTS)


def edited(edit: Edit) -> dict[str, Any]:
    document: dict[str, Any] = loads(TEXT)
    edit(document)
    return document


def test_every_line_is_spelled_as_json_dumps_spells_it() -> None:
    """Lines are put together from texts; a file of another spelling would have another digest when it is read."""
    names = ["<default>", "a b", 'quo"te\\', "\u202e", "😀", "x\n::error", "a"]
    actual: dict[Entity, Values] = {
        ALICE: {"producer_byte_rate": NAN, "future_rate": -0.0, "request_percentage": float("inf")},
        Entity(user=None): {"producer_byte_rate": 7.0, "consumer_byte_rate": 2.0**63},
        Entity({"group": 'g"'}): {"request_percentage": 0.1},
    }
    wanted: dict[Entity, Values] = {Entity(user=name): {"request_percentage": 1e300} for name in names}
    wanted |= {
        ALICE: {"request_percentage": 0.5},
        Entity(user=None): {},
        Entity(client_id="ä"): {"consumer_byte_rate": 1.0},
    }
    text = dumped_plan(guarded(plan_of(wanted, actual)))
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.startswith("    ")]
    assert len(lines) > len(names)
    assert [dumps(loads(line)) for line in lines] == lines
    assert dumped_plan(load_plan(text, "plan.json")) == text


def test_a_plan_file_that_is_cut_off_anywhere_is_refused() -> None:
    whole = TEXT.rstrip()
    for length in range(0, len(whole), 7):
        with pytest.raises(SavedFileError, match=r"plan\.json is not a valid plan file.*make a new plan"):
            load_plan(whole[:length], "plan.json")
    with pytest.raises(SavedFileError, match="not a valid plan file"):
        load_plan(whole[:-1], "plan.json")


BASE = Base(ref="origin/main", commit="a91be02")
BASED = plan_of(
    {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0}, CAROL: {PRODUCER: 1.0}},
    {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}, CAROL: {PRODUCER: 2.0}},
    header=structs.replace(PLAN.header, source=structs.replace(PLAN.header.source, base=BASE)),
    base=DeclaredBase(BASE, declare({ALICE: {PRODUCER: 1.0}, BOB: {}, CAROL: {PRODUCER: 1.0}})),
)


def test_every_option_reads_back_and_only_the_limits_of_guards_are_in_the_plan_id() -> None:
    limits = GuardLimits(delete=CountLimit(0, 1), protect=(Pattern((("user", "kafka-*"), ("client-id", None))),))
    asked = {"prune": PruneMode.REMOVED, "bootstrap_server": "b:9092"}
    by_default, strict = (
        replace(PLAN, header=structs.replace(PLAN.header, options=PlanOptions.of(limits=each, **asked)))
        for each in (GuardLimits(), limits)
    )

    options = loads(dumped_plan(strict))["options"]
    assert list(options) == ["prune", "select", "exclude", "guards", "protect", "bootstrap_server"]
    assert options["guards"] == {"delete": {"count": 0, "percent": 1}}
    assert options["protect"] == [{"user": "kafka-*", "client-id": None}]
    assert load_plan(dumped_plan(guarded(strict)), "plan.json").header.options == strict.header.options
    ids = [
        replace(PLAN, header=structs.replace(PLAN.header, options=PlanOptions.of(limits=each))).plan_id
        for each in (limits, GuardLimits(protect=limits.protect), GuardLimits(change_factor=1000))
    ]
    assert by_default.plan_id == PLAN.plan_id
    assert len({PLAN.plan_id, *ids}) == 4


def test_a_plan_file_that_protects_more_than_quotaform_yaml_can_is_refused() -> None:
    document = edited(lambda document: document["options"].update(protect=[{"user": "a*"}] * 1001))
    with pytest.raises(SavedFileError, match=r"options\.protect is too long: at most 1,000 patterns are allowed"):
        load_plan(signed(document), "plan.json")


def test_a_receipt_as_the_base_reads_back_although_not_all_of_its_values_are_known() -> None:
    base = Base(ref=".quotaform/receipts/lab.json", commit=None, is_receipt=True)
    plan = plan_of(
        {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0}},
        {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}},
        header=structs.replace(PLAN.header, source=structs.replace(PLAN.header.source, base=base)),
        base=DeclaredBase(base, declare({ALICE: {PRODUCER: 1.0}}), frozenset({BOB})),
    )
    assert [change.origin for change in plan.changes] == [ChangeOrigin.CONFIG, None]
    assert load_plan(dumped_plan(plan), "plan.json") == plan


@pytest.mark.parametrize(
    ("base", "changed"),
    [
        (BASE, {"origin": ChangeOrigin.DRIFT}),
        (BASE, {"origin": None}),
        (BASE, {"base": None, "origin": None}),
        (BASE, {"base": {PRODUCER: 9.0}}),
        (None, {}),
        (None, {"base": None}),
    ],
)
def test_an_origin_that_does_not_follow_from_the_base_is_refused(base: Base | None, changed: dict[str, Any]) -> None:
    header = structs.replace(BASED.header, source=structs.replace(BASED.header.source, base=base))
    plan = replace(BASED, header=header, changes=(structs.replace(BASED.changes[0], **changed), *BASED.changes[1:]))
    with pytest.raises(SavedFileError, match=r"changes\[0\]\.origin does not follow from the base"):
        load_plan(dumped_plan(plan), "plan.json")


@pytest.mark.parametrize("source", ["changed", "unmanaged"])
def test_a_limit_that_comes_from_another_entity_is_the_value_that_the_file_says_this_holds(source: str) -> None:
    """Only a limit by the entity itself was compared: that of a deletion could be any number, as in a file sealed again
    a fall from 4096 to 4 was shown as one to 3.
    """
    default = Entity(user=None)
    wanted: dict[Entity, Values] = {ALICE: {}, **({default: {PRODUCER: 4.0}} if source == "changed" else {})}
    held = {} if source == "changed" else {default: {PRODUCER: 4.0}}
    document = loads(dumped_plan(guarded(plan_of(wanted, {ALICE: {PRODUCER: 4096.0}, **held}))))
    assert load_plan(signed(document), "p.json").changes
    change = next(each for each in document["changes"] if each["address"] == "user=alice")
    after = change["keys"][0]["effective"]["after"]
    assert after["source"] == "user=<default>"
    after["value"] = 3
    with pytest.raises(SavedFileError, match=r"effective\.after\.value differs from the value of the entity that it"):
        load_plan(signed(document), "p.json")


@pytest.mark.parametrize("field", ["value", "entity"])
def test_a_limit_has_a_value_and_the_entity_that_it_comes_from_or_neither(field: str) -> None:
    """A file sealed again could say that nothing limits clients from now on, and that this is 4096 bytes per second."""
    document = loads(dumped_plan(guarded(plan_of({ALICE: {PRODUCER: 8.0}}, {ALICE: {PRODUCER: 4096.0}}))))
    after = document["changes"][0]["keys"][0]["effective"]["after"]
    after |= {"value": None} if field == "value" else {"entity": None, "source": None}
    with pytest.raises(SavedFileError, match=r"keys\[0\]\.effective\.after has a value without the entity that it"):
        load_plan(signed(document), "p.json")


def test_a_live_value_that_is_no_number_is_a_word() -> None:
    actual = {
        ALICE: {
            "producer_byte_rate": NAN,
            "request_percentage": float("inf"),
            "controller_mutation_rate": float("-inf"),
        }
    }
    text = dumped_plan(guarded(plan_of({ALICE: {"producer_byte_rate": 1.0}}, actual)))
    rows = load_plan(text, "plan.json").rows
    assert list(loads(text)["changes"][0]["before"].values()) == ["NaN", "Infinity", "-Infinity"]
    assert rows[0].before is not None
    assert rows[0].before != rows[0].before
    assert [row.before for row in rows[1:]] == [float("inf"), float("-inf")]


Path = tuple[str | int, ...]

USER, DEFAULT = Entity(user="alice"), Entity(user=None)
ORIGINAL = plan_of(
    {
        USER: {PRODUCER: 2048.0, CONSUMER: 5.0},
        Entity(user="bob", client_id=None): {REQUEST: 12.5},
        Entity(user="old"): {},
        Entity(user="same"): {PRODUCER: 7.0},
    },
    {
        USER: {PRODUCER: 1024.0, CONSUMER: 5.0},
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_what_blocks_a_plan_is_part_of_its_id() -> None:
    """Somebody could take a finding out of a blocked plan: with the id of the approved plan it was applied."""
    blocked = plan_of({USER: {PRODUCER: 1.0}}, {}, findings=(rule.CLUSTER_ID.finding("pinned to another"),))
    document = loads(dumped_plan(blocked))
    assert blocked.plan_id != plan_of({USER: {PRODUCER: 1.0}}, {}).plan_id
    document["findings"][0]["blocking"] = False
    document.update(applyable=True, allowances=[])
    document["summary"]["blocked"] = 0
    with pytest.raises(SavedFileError, match=r"findings\[0\]\.blocking contradicts the rule"):
        load_plan(sealed_again(document), "plan.json")


def sealed_text(content: str) -> str:
    """A text with the digest that belongs to it, whatever it is."""
    return f'{content},\n  "digest": "sha256:{sha256((content + END).encode()).hexdigest()}"{END}'


@pytest.mark.exhaustive
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
