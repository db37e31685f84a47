"""Laws of the receipt: whatever happens to the requests, it never says what is not so.

A request goes well, is refused in part, is lost on the way there or back, is accepted and never shows, or is cut off by
an interrupt; reads fail or come late. The cluster is `tests.scripted_gateway`, and its `quotas` are the truth.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from quotaform.apply.run import apply_plan
from quotaform.model.alteration import Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, QuotaformError
from quotaform.model.quotas import NO_VALUES, Quotas, same_values
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, Result
from tests.builder import PRODUCER, altered, plan_of
from tests.scripted_gateway import ANSWER_LOST, FINE, NEVER_SHOWN, NO_CONNECTION, Answer, Clock, ScriptedGateway
from tests.strategies import desired, live_quotas

ATTEMPTS = 3
ENDS = (ClusterError("scripted: no connection"), KeyboardInterrupt(), RuntimeError("scripted: a mistake of our own"))


@dataclass(frozen=True)
class Story:
    """A plan, the cluster that it meets, and what happens to each request."""

    plan: Plan
    live: Quotas
    reads: list[Quotas | BaseException | None]
    writes: list[Answer]
    validates: list[Answer]
    chunk_size: int
    interrupted_step: int | None = None


def answers(entities: list[Entity]) -> st.SearchStrategy[Answer]:
    """How one request goes."""
    some = st.sampled_from(entities)
    trouble = st.builds(
        Answer,
        applies=st.booleans(),
        outcome=st.sampled_from([Outcome.OK, Outcome.OK, Outcome.UNKNOWN]),
        refused=st.dictionaries(some, st.just((42, "scripted: no")), max_size=4),
        unsure=st.dictionaries(some, st.booleans(), max_size=2),
        raises=st.sampled_from([None, None, None, *ENDS]),
    )
    return st.one_of(st.just(FINE), st.sampled_from([ANSWER_LOST, NO_CONNECTION, NEVER_SHOWN]), trouble)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    actual = draw(live_quotas(max_size=5))
    plan = plan_of(draw(desired(max_size=6, min_size=2)), actual)
    entities = [change.entity for change in plan.changes] or [Entity(user="nobody")]
    # What somebody did before us; mostly nothing, or the change would be stale.
    done = draw(st.one_of(st.just(frozenset()), st.frozensets(st.sampled_from(entities), max_size=2)))
    live = altered(actual, [change.alteration() for change in plan.changes if change.entity in done])
    reads = st.sampled_from([None, None, live, *ENDS])
    return Story(
        plan=plan,
        live=live,
        # The first read is before anything is written.
        reads=[draw(st.sampled_from([None] * 9 + [ENDS[0]])), *draw(st.lists(reads, max_size=6))],
        writes=draw(st.lists(answers(entities), min_size=1, max_size=8)),
        validates=draw(st.sampled_from([[]] * 9 + [[ANSWER_LOST]])),
        chunk_size=draw(st.integers(1, 4)),
        interrupted_step=draw(st.sampled_from([None] * 20 + list(range(15)))),
    )


def tell(story: Story) -> tuple[ScriptedGateway, Receipt | None]:
    """Apply the plan; without a receipt nothing may have been written."""
    gateway = ScriptedGateway(
        story.live,
        reads=story.reads,
        writes=story.writes,
        validates=story.validates,
        chunk_size=story.chunk_size,
    )
    steps = iter(range(10_000))

    def progress(what: str, done: int, total: int) -> None:
        assert done <= total, f"{what} {done} of {total}"
        if next(steps) == story.interrupted_step:
            raise KeyboardInterrupt

    try:
        receipt = apply_plan(story.plan, gateway, progress, clock=Clock())
    except (KeyboardInterrupt, RuntimeError, QuotaformError) as error:
        event(f"nothing was written: {type(error).__name__}")
        assert gateway.sent == []
        assert gateway.quotas is story.live
        return gateway, None
    for result in {item.result for item in receipt.results}:
        event(f"a receipt with {result}")
    return gateway, receipt


ALICE = Entity(user="alice")
NO_QUOTAS: list[Quotas] = [{}] * 200
REFUSED_WHEN_SENT_AGAIN = Story(
    plan=plan_of({ALICE: {PRODUCER: 2.0}}, {}),
    live={},
    reads=[None, *NO_QUOTAS],
    writes=[ANSWER_LOST, Answer(refused={ALICE: (42, "no")})],
    validates=[],
    chunk_size=1,
)


@given(stories())
@example(REFUSED_WHEN_SENT_AGAIN)
def test_a_receipt_never_says_what_is_not_so(story: Story) -> None:
    gateway, receipt = tell(story)
    if receipt is None:
        return
    assert [item.entity for item in receipt.results] == [change.entity for change in story.plan.changes]
    for item, change in zip(receipt.results, story.plan.changes, strict=True):
        live, before = gateway.quotas.get(item.entity, NO_VALUES), story.live.get(item.entity, NO_VALUES)
        is_changed = not same_values(live, before)
        if item.result.holds:
            assert same_values(live, change.after), f"{item.result} is not so"
        if item.result in (Result.REFUSED, Result.NOT_ATTEMPTED, Result.ALREADY_APPLIED):
            assert not is_changed, f"{item.result}, and yet it was changed"
        if is_changed:
            assert receipt.digest.wrote_anything


@settings(max_examples=60)
@given(stories())
def test_nothing_outside_of_a_plan_is_touched(story: Story) -> None:
    gateway, _ = tell(story)
    planned = {change.entity: change for change in story.plan.changes}
    for entity in {*gateway.quotas, *story.live}:
        live, before = gateway.quotas.get(entity, NO_VALUES), story.live.get(entity, NO_VALUES)
        if entity in planned:
            assert same_values(live, before) or same_values(live, planned[entity].after), "all or not at all"
        else:
            assert live is before


@settings(max_examples=60)
@given(stories())
def test_a_change_is_sent_again_only_while_its_outcome_is_unknown(story: Story) -> None:
    gateway, receipt = tell(story)
    times = Counter(address for request in gateway.sent for address in request)
    assert set(times) <= {change.entity.address for change in story.plan.changes}
    assert max(times.values(), default=0) <= ATTEMPTS
    assert max(map(len, gateway.sent), default=0) <= story.chunk_size
    if receipt is None:
        return
    for item in receipt.results:
        if not times[item.entity.address]:
            assert item.result in (Result.NOT_ATTEMPTED, Result.ALREADY_APPLIED)
        if item.result is Result.NOT_ATTEMPTED:
            assert not times[item.entity.address]


@settings(max_examples=60)
@given(stories())
def test_a_receipt_is_complete_when_everything_holds_and_a_second_apply_then_sends_nothing(story: Story) -> None:
    gateway, receipt = tell(story)
    if receipt is None or not receipt.is_complete:
        return
    again = ScriptedGateway(gateway.quotas)
    assert all(item.result is Result.ALREADY_APPLIED for item in apply_plan(story.plan, again, clock=Clock()).results)
    assert again.sent == []
