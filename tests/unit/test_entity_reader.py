"""Options that name entities: names as they are, or as results print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.option.entity import read_entity, read_filter, read_pair
from quotaform.model.entity import Entity
from quotaform.model.errors import UsageError
from quotaform.model.filter import EntityFilter, FilterComponent, Rule

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


def test_an_address_is_one_entity_and_goes_with_no_option_that_names_one() -> None:
    alice = Entity(user="alice")
    assert read_filter(entity=alice) == EntityFilter.contains_only(user="alice")
    assert read_entity(None, entity=alice) == alice
    with pytest.raises(UsageError, match=r"^user=alice names the entity; leave --name out$"):
        read_entity(["user=b"], entity=alice)
    with pytest.raises(UsageError, match=r"^user=alice names one entity; leave --any, --prefix and --not out$"):
        read_filter(entity=alice, prefixes=["user=a"])
    with pytest.raises(UsageError, match=r'^users=a: "users" is not an entity type; did you mean user'):
        read_entity(None, entity=Entity({"users": "a"}))


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
