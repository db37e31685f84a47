"""One function decides the exit code, and every error has one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import pytest

from quotaform import errors
from quotaform.cli.exit_code import ExitCode, decide
from quotaform.errors import QuotaformError

PRECEDENCE = (64, 1, 3, 4, 2, 0)
"""As the contract says it; what was written or interrupted comes before all of them."""


def error_classes(base: type[QuotaformError] = QuotaformError) -> Iterator[type[QuotaformError]]:
    yield base
    for each in base.__subclasses__():
        yield from error_classes(each)


@pytest.mark.parametrize(("stronger", "weaker"), list(combinations((143, 130, 6, 5, *PRECEDENCE), 2)))
def test_the_code_that_matters_more_wins(stronger: int, weaker: int) -> None:
    codes = [ExitCode(weaker), ExitCode(stronger), ExitCode(weaker)]
    assert decide(codes) == stronger
    assert decide(reversed(codes)) == stronger


@pytest.mark.parametrize("code", ExitCode)
def test_one_code_is_itself(code: ExitCode) -> None:
    assert decide([code]) is code
    assert decide([ExitCode.DONE, code]) is code


def test_nothing_at_all_is_success() -> None:
    assert decide([]) is ExitCode.DONE


def test_plain_numbers_are_as_good() -> None:
    assert decide([0, 2]) is ExitCode.DIFFERENCES  # type: ignore[list-item]


@pytest.mark.parametrize("error", list(error_classes()), ids=lambda error: error.__name__)
def test_every_error_ends_with_a_code_of_the_contract(error: type[QuotaformError]) -> None:
    assert ExitCode(error.exit_code) not in (ExitCode.DONE, ExitCode.DIFFERENCES)


def test_the_tree_that_the_module_shows_has_every_error() -> None:
    shown = re.findall(r"^ *\* (\w+)", errors.__doc__ or "", re.MULTILINE)
    assert sorted(shown) == sorted(error.__name__ for error in error_classes() if error.__module__ == errors.__name__)
