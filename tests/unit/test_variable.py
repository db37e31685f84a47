"""`${env:NAME}` is read in one way wherever it is allowed."""

from __future__ import annotations

from time import monotonic

import pytest

from quotaform.model.variable import ReferenceProblem, expand

VARIABLES = {"HOST": "b1", "PORT": "9092", "NESTED": "${env:HOST}"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("${env:HOST}:${env:PORT}", "b1:9092"),
        ("$${env:HOST}", "$b1"),
        ("${env:NESTED}", "${env:HOST}"),
        ("a}b{c", "a}b{c"),
    ],
)
def test_variables_are_replaced_once(text: str, expanded: str) -> None:
    expansion = expand(text, VARIABLES)
    assert (expansion.text, expansion.problems) == (expanded, ())


@pytest.mark.parametrize(
    ("text", "problem", "name"),
    [
        ("${HOST}", ReferenceProblem.NOT_A_REFERENCE, ""),
        ("${env:HOST", ReferenceProblem.NOT_A_REFERENCE, "HOST"),
        ("${file:HOST}", ReferenceProblem.OTHER_SOURCE, "HOST"),
        ("${:HOST}", ReferenceProblem.OTHER_SOURCE, "HOST"),
        ("${env:1}", ReferenceProblem.BAD_NAME, "1"),
        ("${env:}", ReferenceProblem.BAD_NAME, ""),
        ("${env:OTHER}", ReferenceProblem.UNSET, "OTHER"),
    ],
)
def test_what_is_not_replaced_stays_and_says_why(text: str, problem: ReferenceProblem, name: str) -> None:
    expansion = expand(f"{text} ${{env:PORT}}" if text.endswith("}") else text, VARIABLES)
    assert expansion.problems == ((problem, name),)
    assert expansion.text.startswith(text)


def test_a_value_does_not_show_in_a_representation() -> None:
    assert "b1" not in repr(expand("${env:HOST}", VARIABLES))


def test_many_openings_take_no_time() -> None:
    """`${` 200,000 times took over 15 s in client properties: each opening was followed to the end of the text."""
    start = monotonic()
    expand("${" * 200_000, VARIABLES)
    assert monotonic() - start < 2
