"""Errors that somebody acts on carry what they are about, and their messages are built from it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import timedelta

import pytest

from quotaform.model import errors
from quotaform.model.alteration import AlterResult, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.quotas import check_pinned_id
from tests.golden.conftest import Golden

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
FINDING = Finding(rule="cluster-id", message="No.", blocking=True)
MANY = [
    *(
        Finding(rule="to-unlimited", message="no limit", blocking=True, address=f"user=u{n}", override="--allow x")
        for n in range(7)
    ),
    Finding(rule="delete", message="40 of 40", blocking=True, override="--allow delete=40"),
    FINDING,
]
OTHER_ID = check_pinned_id("lab", "pinned", "live")
assert OTHER_ID is not None
EXAMPLES: list[errors.QuotaformError] = [
    errors.UsageError("words"),
    errors.LayerDirectoryError("quotas.d/lab", "lab", "quotas.d"),
    errors.ClusterChoiceError(["a", "b"]),
    errors.NoClusterError("quotaform.yaml", exists=False),
    errors.UnknownKeyError("x", '"x"', "."),
    errors.InvalidFilesError([FINDING]),
    errors.FileReadError("a.yaml", "gone", is_missing=True),
    errors.NotTextError("a.yaml"),
    errors.BaseError("origin/main", "there is none"),
    errors.ExistingFilesError(["quotas.d"]),
    errors.UndeclaredError(ALICE, "user=alise"),
    errors.SavedFileError("plan.json", "cannot be read: gone"),
    errors.ClusterIdError(OTHER_ID, expected="pinned", found="live"),
    errors.PlanBlockedError("lab", [FINDING]),
    errors.PlanBlockedError("lab", MANY),
    errors.RefusedError({ALICE: "no"}, 3),
    errors.NotApprovedError(["lab"], remedy="ask"),
    errors.SavedFileChangedError("plan.json", "digest", "make a new plan"),
    errors.OtherClusterError("receipt", expected="a", found="b"),
    errors.RevertError({(ALICE, "producer_byte_rate"): "is 7 B/s"}),
    errors.PlanIdError(expected="a", found="b"),
    errors.PlanAgeError("lab", "2026-11-20T09:12:44Z", age=timedelta(days=2), limit=timedelta(days=1)),
    errors.PlanGuardsError(["of the plan, protect has no user=kafka-*"]),
    errors.OtherClusterError("plan", expected="a", found="b"),
    errors.StaleEntitiesError({ALICE: ["producer_byte_rate is 2 B/s"]}),
    errors.ApplyRunningError("lab"),
    errors.PartialError("late", [ALICE]),
    errors.ApplyLostError("Spark failed", "receipt.json"),
    errors.ClusterError("gone"),
    errors.ClusterError("gone."),
    errors.AuthorizationError("you may not", remedy="grant it."),
    errors.ConnectError(
        "nothing listens", remedy="start it.", server="b1:9092", cluster="lab", more=" Also tried: b2."
    ),
    errors.UnsettledError("lab", 60.0),
    errors.HttpError("https://a", "did not answer", status=500),
    errors.MetricsError("http://b1:7071", "did not answer within 5 s"),
    errors.NothingReadError("lab", {"1": "http://b1:7071 did not answer within 5 s"}),
    errors.HistoryError("history", "it is empty", "append to it"),
    errors.StreamError("checkpoint", "it is in use", "wait"),
]


def base_classes(kind: type[errors.QuotaformError]) -> Iterator[type]:
    return (base for base in kind.__mro__ if base.__module__ == errors.__name__)


def test_each_error_says_this_and_carries_this(golden: Golden) -> None:
    told = []
    for error in EXAMPLES:
        carried = "".join(f"\n  {name}: {value!r}" for name, value in vars(error).items())
        told.append(f"{type(error).__name__} ({error.exit_code:d}): {error}{carried}\n")
    golden("errors.txt", "\n".join(told))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_comes_whole_from_another_process(error: errors.QuotaformError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_every_constructor_has_an_example() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and "__init__" in vars(kind)}
    assert kinds <= {base for error in EXAMPLES for base in base_classes(type(error))}


def test_an_error_with_more_words_keeps_what_it_carries() -> None:
    error = errors.UnsettledError("lab", 60.0)
    more = error.with_more(" (again)")
    assert type(more) is errors.UnsettledError
    assert (str(more), vars(more)) == (f"{error} (again)", vars(error))


def test_refused_entities_and_their_code_are_in_the_error() -> None:
    rows = (
        AlterRow(ALICE, Outcome.OK),
        AlterRow(BOB, Outcome.REFUSED, 44, "too much"),
        AlterRow(ALICE, Outcome.NOT_SENT, None, "not sent"),
    )
    with pytest.raises(errors.PolicyError, match=r"^user=bob: too much \(and 1 more\)$") as caught:
        AlterResult(rows).raise_for_errors()
    assert (caught.value.code, caught.value.entities) == (44, (BOB, ALICE))


def test_a_changed_file_is_stale_and_is_a_saved_file() -> None:
    changed = errors.SavedFileChangedError("plan.json", "digest", "make a new plan")
    assert isinstance(changed, errors.SavedFileError)
    assert isinstance(changed, errors.StaleError)
