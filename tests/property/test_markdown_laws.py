"""Laws of Markdown for any plan: it fits, its tables have all cells, and nothing of a name is more than a name."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from quotaform.drift.drift import make_drift
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Result
from quotaform.report.comment import COMMENT_BYTES
from tests.builder import CONSUMER, HEADER, PRODUCER, declare, receipt_of
from tests.markdown import markdown_of, read_markdown

PIECES = (
    *(
        "|",
        "\\",
        "`",
        "``",
        "```",
        "@here",
        "@o/t",
        "<!--",
        "-->",
        "<b>",
        "</details>",
        "](",
        "[a]",
        "![",
        "http://x.example",
    ),
    *(
        "#1",
        "GH-1",
        "!1",
        "&amp;",
        "*",
        "_",
        "~~~",
        "\n",
        "\r",
        "\x1b[31m",
        "\u202e",
        " ",
        "a",
        "www.x.example",
        "$",
        "::error::",
    ),
)
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join) | st.text(min_size=1, max_size=20)
VALUES = st.sampled_from([1.0, 5.0, 1024.0**2, 2.0**63])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    entities = [Entity(user=name) if draw(st.booleans()) else Entity(user="u", client_id=name) for name in names]
    wanted = {each: draw(st.sampled_from([{}, {PRODUCER: 1.0}, {PRODUCER: 5.0, CONSUMER: 1.0}])) for each in entities}
    live = {each: {PRODUCER: draw(VALUES), draw(NAMES): 2.0} for each in entities if draw(st.booleans())}
    text = draw(NAMES)
    files = declare(wanted, owner=text, reason=text)
    findings = tuple(
        Finding(rule=text, message=f"{text} is {text}.", blocking=draw(st.booleans()), address=each.address)
        for each in entities[:2]
    )
    header = structs.replace(
        HEADER,
        cluster=structs.replace(HEADER.cluster, name=text),
        source=structs.replace(HEADER.source, directory=text),
    )
    return replace(make_plan(diff(files, live), files, live, header), findings=findings)


def require_inert(text: str, cells: set[int]) -> None:
    document = read_markdown(text)
    assert all(set(table) <= cells and len(set(table)) == 1 for table in document.tables), text
    assert (document.html, document.links, document.references) == ([], [], []), text
    assert text.splitlines()[0].count("-->") == 1


@given(plans())
def test_no_name_is_more_than_a_name(plan: Plan) -> None:
    require_inert(markdown_of("plan", plan), {3, 8})
    require_inert(markdown_of("drift", make_drift(plan), root=plan.header.source.directory), {7})
    name = plan.header.cluster.name
    receipt = receipt_of(plan, Result.REFUSED, message=name, applied_by=name)
    require_inert(markdown_of("receipt", receipt), {9})


@settings(max_examples=15)
@given(
    prefix=NAMES,
    number=st.integers(1, 5_000),
    shares=st.tuples(st.integers(0, 100), st.integers(0, 100)),
    distinct=st.booleans(),
    length=st.sampled_from([0, 30, 300]),
)
def test_any_plan_fits(prefix: str, number: int, shares: tuple[int, int], distinct: bool, length: int) -> None:
    entities = [Entity(user=f"{prefix}{'é' * length}{index}") for index in range(number)]
    live_to, deleted_to = (number * share // 100 for share in shares)
    live = {each: {PRODUCER: 3.0} for each in entities[:live_to]}
    files = declare(
        {
            each: {} if index < deleted_to else {PRODUCER: float(index + 10) if distinct else 9.0}
            for index, each in enumerate(entities)
        },
        owner=prefix,
    )
    plan = make_plan(diff(files, live), files, live, HEADER)
    blocking = tuple(
        Finding(rule="r", message=f"{prefix} no", blocking=True, address=change.entity.address)
        for change in plan.changes[:: 1 + shares[0] % 7]
    )
    plan = replace(plan, findings=blocking)
    text = markdown_of("plan", plan)
    assert len(text.encode()) <= COMMENT_BYTES
    assert f"**Blocked by {len(blocking):,} finding" in text or not blocking
    deleted = plan.summary["delete"]
    assert f"#### Deleted: {deleted:,} entit" in text or not deleted
    assert plan.header.cluster.name in text
    assert f"Plan id {plan.plan_id}" in text
