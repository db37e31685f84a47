"""Options that name entities: names as they are, or as results print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.option.entity_reader import read_entity, read_filter, read_pair
from quotaform.errors import UsageError
from quotaform.model.entity import Entity
from quotaform.model.filter import FilterComponent, Rule

NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.text(st.sampled_from('"\\n<>a =,'), max_size=8)
).filter(lambda name: name != "<default>")


@given(NAMES)
def test_what_results_print_of_a_name_is_read_as_this_name(name: str) -> None:
    assert read_entity([Entity(user=name).address], None) == Entity(user=name)


@given(NAMES.filter(lambda name: not name.startswith('"')))
def test_a_name_without_a_quote_before_it_is_taken_as_it_is(name: str) -> None:
    assert read_pair("--name", f"user={name}") == ("user", name)


@pytest.mark.parametrize("name", ['"', '"a', '"a" b', '"a"x', '"\\u0061"', '""a""', '"1', '"a\\"'])
def test_quotes_that_results_do_not_print_are_part_of_the_name(name: str) -> None:
    assert read_pair("--name", f"user={name}") == ("user", name)


def test_a_literal_default_needs_quotes() -> None:
    with pytest.raises(UsageError, match="for the default write --default client-id"):
        read_entity(["client-id=<default>"], None)
    assert read_entity(['client-id="<default>"'], ["user"]) == Entity(user=None, client_id="<default>")


def test_all_filters_add_up_in_canonical_order() -> None:
    found = read_filter(
        names=["client-id=x"], defaults=["user"], any_names=["user"], prefixes=["user=a"], others=["user=b=c"]
    )
    assert found.components == (
        FilterComponent("user", Rule.DEFAULT),
        FilterComponent("client-id", Rule.EXACT, "x"),
        FilterComponent("user", Rule.ANY),
        FilterComponent("user", Rule.PREFIX, "a"),
        FilterComponent("user", Rule.NOT, "b=c"),
    )
    assert not found.is_strict
    assert read_filter(any_names=["ip"], is_strict=True).is_strict
    assert read_filter().components == ()
