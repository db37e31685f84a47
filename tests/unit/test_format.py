"""The registry of formats: each row leads to a function that exists and takes what it is given."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature

import pytest

from quotaform.model.entity import Entity
from quotaform.report import format as registry
from quotaform.report.format import FORMATS, function_of, render
from quotaform.report.text import Style
from tests import builder

ROWS = [(subject, name) for subject, formats in FORMATS.items() for name in formats]


@pytest.mark.parametrize(("subject", "name"), ROWS)
def test_a_row_names_a_function_that_takes_the_value_first_and_the_rest_by_name(subject: str, name: str) -> None:
    first, *others = signature(function_of(FORMATS[subject][name])).parameters.values()
    assert first.kind is Parameter.POSITIONAL_OR_KEYWORD
    assert all(other.kind is not Parameter.POSITIONAL_ONLY for other in others)


@pytest.mark.parametrize("subject", sorted(FORMATS.keys() - {"limit-changes"}))
def test_every_subject_has_text_for_people_and_json_for_machines(subject: str) -> None:
    assert list(FORMATS[subject])[:2] == ["text", "json"]


def test_a_function_is_given_the_options_that_it_takes_and_no_others() -> None:
    plan = builder.plan_of({Entity(user="a"): {"producer_byte_rate": 1.0}}, {})
    options = {"style": Style(True), "shows_unchanged": True, "shows_unmanaged": True}
    assert "\x1b[" in "".join(render("plan", "text", plan, **options))
    assert "".join(render("plan", "json", plan, **options)).startswith('{\n  "format_version"')


def test_small_pieces_are_joined_to_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces(value: int) -> Iterator[str]:
        yield from "x" * value

    monkeypatch.setattr(registry, "function_of", lambda name: pieces)
    assert [len(piece) for piece in render("plan", "text", 150_000)] == [65_536, 65_536, 18_928]
