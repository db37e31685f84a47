"""A plan file is what was written, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from json import dumps, loads
from typing import Any

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import PlanFileError, StaleError
from quotaform.model.finding import Allowance, Finding
from quotaform.model.quotas import Base, DeclaredBase, Values
from quotaform.model.scope import Pattern
from quotaform.model.settings import CountLimit, GuardLimits, PruneMode
from quotaform.plan.change import Origin
from quotaform.plan.plan import PlanOptions
from quotaform.plan.records import PLAN_LISTS, load_plan
from tests.builder import PRODUCER, declare, guarded, plan_of
from tests.dumped import dumped_plan, sealed

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


def resealed(text: str) -> str:
    """A file with the digest of its bytes."""
    content = text.rpartition(',\n  "digest"')[0]
    return f',\n  "digest": "sha256:{sha256((content + END).encode()).hexdigest()}"{END}'.join((content, ""))


def edited(edit: Edit) -> dict[str, Any]:
    document: dict[str, Any] = loads(TEXT)
    edit(document)
    return document


def _change(document: dict[str, Any]) -> dict[str, Any]:
    change: dict[str, Any] = document["changes"][0]
    return change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"after": 2048', '"after": 4096'),
        ('"applyable": true', '"applyable": false'),
        ('"alice"', '"mallory"'),
        ('"message": "no number"', '"message": ""'),
        ('"dirty": false', '"dirty": true'),
        ('"complete": true', '"complete":  true'),
        ('"created_at"', '"added_later": 1, "created_at"'),
        ('"digest": "sha256:', '"digest": "sha256:0'),
        ('"digest": "sha256:', '"digests": "sha256:'),
        ('"digest": "sha256:', '"digest": 7, "x": "'),
    ],
)
def test_a_plan_file_that_was_edited_by_hand_is_stale(old: str, new: str) -> None:
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    with pytest.raises(StaleError, match=r"plan\.json was changed after it was written.*make a new plan"):
        load_plan(changed, "plan.json")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "9" * 5000])
def test_a_number_that_no_plan_has_is_refused(number: str) -> None:
    """The digest of such a number raised, and of thousands of digits Python reads none: an internal error."""
    for text in (TEXT, resealed(TEXT.replace("2048", number))):
        with pytest.raises((PlanFileError, StaleError), match=r"not a valid plan file|changed after it was written"):
            load_plan(text.replace("2048", number), "plan.json")


def test_the_digest_covers_the_bytes() -> None:
    for text in (dumps(loads(TEXT), indent=2), TEXT.replace("\n", "\r\n")):
        with pytest.raises(StaleError, match="its digest does not match"):
            load_plan(text, "plan.json")


def test_a_sealed_file_in_another_layout_is_the_same_plan() -> None:
    shifted = resealed(TEXT.replace('\n    {"address"', '\n     {"address"'))
    assert shifted != TEXT
    assert dumped_plan(load_plan(shifted, "plan.json")) == TEXT


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


def test_bytes_are_read_as_well_as_text() -> None:
    assert dumped_plan(load_plan(TEXT.encode(), "plan.json")) == TEXT


def test_a_plan_file_that_is_cut_off_anywhere_is_refused() -> None:
    whole = TEXT.rstrip()
    for length in range(0, len(whole), 7):
        with pytest.raises(PlanFileError, match=r"plan\.json is not a valid plan file.*make a new plan"):
            load_plan(whole[:length], "plan.json")
    with pytest.raises(PlanFileError, match="not a valid plan file"):
        load_plan(whole[:-1], "plan.json")


@pytest.mark.parametrize(
    "content",
    ["", " \n", "quotas: []", "{", "\0\0\0", b"", b"\xff\xfe\x00", b'{"kind": "\xe4"}', '{"kind": ' + "[" * 100_000],
)
def test_what_is_no_json_is_refused(content: str | bytes) -> None:
    with pytest.raises(PlanFileError, match="not a valid plan file"):
        load_plan(content, "plan.json")


@pytest.mark.parametrize("content", ["[]", "null", "7", '"quotaform.plan"', "{}", '{"kind": "quotaform.receipt"}'])
def test_json_that_is_no_plan_is_refused(content: str) -> None:
    with pytest.raises(PlanFileError, match=r"not a plan file: it has no kind 'quotaform\.plan'"):
        load_plan(content, "plan.json")


@pytest.mark.parametrize("version", ["1.1", "3.0", "20.0", "", None, 1, ["1.0"], "x" * 1000])
def test_an_unknown_major_version_is_refused(version: object) -> None:
    with pytest.raises(PlanFileError, match=r"has format version .{0,25}; this quotaform reads 2\.0"):
        load_plan(signed(edited(lambda document: document.update(format_version=version))), "plan.json")


def test_a_newer_minor_version_may_have_more_fields_anywhere() -> None:
    def add(document: dict[str, Any]) -> None:
        document.update(format_version="2.7", added_later={"any": ["thing"]})
        _change(document)["added_later"] = 1
        _change(document)["keys"][0]["added_later"] = None

    again = load_plan(signed(edited(add)), "plan.json")
    assert again.rows == PLAN.rows
    assert again.plan_id == PLAN.plan_id


BASE = Base("origin/main", "a91be02")
BASED = plan_of(
    {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0}, CAROL: {PRODUCER: 1.0}},
    {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}, CAROL: {PRODUCER: 2.0}},
    header=replace(PLAN.header, source=replace(PLAN.header.source, base=BASE)),
    base=DeclaredBase(BASE, declare({ALICE: {PRODUCER: 1.0}, BOB: {}, CAROL: {PRODUCER: 1.0}})),
)


def test_every_option_reads_back_and_only_the_limits_of_guards_are_in_the_plan_id() -> None:
    limits = GuardLimits(delete=CountLimit(0, 1), protect=(Pattern((("user", "kafka-*"), ("client-id", None))),))
    asked = {"prune": PruneMode.REMOVED, "bootstrap_server": "b:9092"}
    by_default, strict = (
        replace(PLAN, header=replace(PLAN.header, options=PlanOptions(limits=each, **asked)))  # type: ignore[arg-type]
        for each in (GuardLimits(), limits)
    )

    options = loads(dumped_plan(strict))["options"]
    assert list(options) == ["prune", "select", "exclude", "guards", "protect", "bootstrap_server"]
    assert options["guards"] == {"delete": {"count": 0, "percent": 1}}
    assert options["protect"] == [{"user": "kafka-*", "client-id": None}]
    assert load_plan(dumped_plan(guarded(strict)), "plan.json").header.options == strict.header.options
    assert by_default.plan_id == PLAN.plan_id != strict.plan_id


def test_a_plan_file_that_protects_more_than_quotaform_yaml_can_is_refused() -> None:
    document = edited(lambda document: document["options"].update(protect=[{"user": "a*"}] * 1001))
    with pytest.raises(PlanFileError, match=r"options\.protect is too long: at most 1,000 patterns are allowed"):
        load_plan(signed(document), "plan.json")


def test_a_receipt_as_the_base_reads_back_although_not_all_of_its_values_are_known() -> None:
    base = Base(".quotaform/receipts/lab.json", None, is_receipt=True)
    plan = plan_of(
        {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0}},
        {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}},
        header=replace(PLAN.header, source=replace(PLAN.header.source, base=base)),
        base=DeclaredBase(base, declare({ALICE: {PRODUCER: 1.0}}), frozenset({BOB})),
    )
    assert [change.origin for change in plan.changes] == [Origin.CONFIG, None]
    assert load_plan(dumped_plan(plan), "plan.json") == plan


@pytest.mark.parametrize(
    ("base", "changed"),
    [
        (BASE, {"origin": Origin.DRIFT}),
        (BASE, {"origin": None}),
        (BASE, {"base": None, "origin": None}),
        (BASE, {"base": {PRODUCER: 9.0}}),
        (None, {}),
        (None, {"base": None}),
    ],
)
def test_an_origin_that_does_not_follow_from_the_base_is_refused(base: Base | None, changed: dict[str, Any]) -> None:
    header = replace(BASED.header, source=replace(BASED.header.source, base=base))
    plan = replace(BASED, header=header, changes=(replace(BASED.changes[0], **changed), *BASED.changes[1:]))
    with pytest.raises(PlanFileError, match=r"changes\[0\]\.origin does not follow from the base"):
        load_plan(dumped_plan(plan), "plan.json")


def test_the_plan_id_covers_what_is_allowed() -> None:
    allowed = replace(PLAN, allowances=(Allowance("delete", 12),))
    assert allowed.plan_id != PLAN.plan_id
    document = loads(dumped_plan(allowed))
    document["allowances"] = ["delete=100"]
    with pytest.raises(StaleError):
        load_plan(signed(document), "plan.json")


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: _change(document)["keys"][0].update(after=4096),
        lambda document: document["changes"].pop(),
        lambda document: document["cluster"].update(id="another"),
        lambda document: document.update(plan_id="sha256:" + "0" * 64),
    ],
)
def test_the_plan_id_guards_what_is_done_even_with_the_right_digest(edit: Edit) -> None:
    with pytest.raises(StaleError, match="its plan id does not match"):
        load_plan(signed(edited(edit)), "plan.json")


def test_the_values_of_an_entity_agree_with_the_rows_that_the_plan_id_covers() -> None:
    """The plan id covers rows, and what apply compared were the values of the entity as a whole: with others in their
    place a plan was "already there", and nothing was written.
    """
    created = plan_of({ALICE: {"producer_byte_rate": 2048.0}}, {})
    document = loads(dumped_plan(created))
    document["changes"][0]["after"] = {"producer_byte_rate": 7, "consumer_byte_rate": 7}
    with pytest.raises(
        PlanFileError, match=r"changes\[0\]\.after does not follow from before and keys; make a new plan"
    ):
        load_plan(signed(document), "plan.json")


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


def test_a_file_that_is_no_json_at_all_is_called_that() -> None:
    with pytest.raises(PlanFileError, match="not a valid plan file: it is not JSON; "):
        load_plan("clusters:\n  lab: {}\n", "quotaform.yaml")
    with pytest.raises(PlanFileError, match="its JSON is truncated or invalid at line 6;"):
        load_plan(TEXT.replace('"cluster"', "cluster"), "plan.json")
