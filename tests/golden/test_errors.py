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
from tests.golden.table import check_told

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
FINDING = Finding(rule="cluster-id", message="No.", blocking=True)


def test_each_error_says_and_carries_this_and_comes_whole_from_another_process(golden: Golden) -> None:
    names = {**vars(errors), "timedelta": timedelta, "Finding": Finding, "check_pinned_id": check_pinned_id}
    names |= {"ALICE": ALICE, "FINDING": FINDING}
    kinds: set[type] = set()

    def of_error(text: str) -> Iterator[str]:
        error = eval(text, names)  # noqa: S307 (our own)
        kinds.update(type(error).__mro__)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
        yield from f"{type(error).__name__} ({error.exit_code:d}): {error}".splitlines()
        yield from (f"  {name}: {value!r}" for name, value in vars(error).items())

    check_told(golden, "errors.txt", of_error)
    assert {kind for kind in vars(errors).values() if isinstance(kind, type) and "__init__" in vars(kind)} <= kinds


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
