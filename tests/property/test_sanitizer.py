"""Kafka's Sanitizer rule, and that whatever is printed by it can be given back."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.entity import desanitize, sanitize

ODD = st.text(alphabet=st.sampled_from("a%2025B~+* .-_=,/é<>"), max_size=12)
NAMES = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), ODD)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", ""),
        ("svc-orders_1.2", "svc-orders_1.2"),
        ("a b", "a%20b"),
        ("*", "%2A"),
        ("+", "%2B"),
        ("~", "%7E"),
        ("<default>", "%3Cdefault%3E"),
        ("CN=a b,O=Å/ß+*~'\"", "CN%3Da%20b%2CO%3D%C3%85%2F%C3%9F%2B%2A%7E%27%22"),
        ("😀\n", "%F0%9F%98%80%0A"),
        ("a%20b", "a%2520b"),
    ],
)
def test_names_are_written_as_kafka_writes_them(name: str, text: str) -> None:
    assert sanitize(name) == text
    assert desanitize(text) == name


@given(NAMES)
def test_the_rule_is_url_encoding_with_three_exceptions(name: str) -> None:
    assert sanitize(name) == quote(name, safe=".-_").replace("~", "%7E")
    assert sanitize(name).isascii()
    assert not set(sanitize(name)) & set(" ,={}<>*+~\n")


@given(NAMES)
def test_what_is_printed_can_be_given_back(name: str) -> None:
    assert desanitize(sanitize(name)) == name


@given(NAMES)
def test_a_text_that_is_never_printed_is_taken_as_it_is(text: str) -> None:
    name = desanitize(text)
    assert name == (unquote(text) if sanitize(unquote(text, errors="surrogateescape")) == text else text)
    if "%" not in text:
        assert name == text


@given(NAMES, NAMES)
def test_two_names_are_never_printed_alike(one: str, other: str) -> None:
    assert (sanitize(one) == sanitize(other)) == (one == other)


@pytest.mark.parametrize(
    "text", ["100%", "%", "%2", "%zz", "a%2gb", "a%2eb", "%41", "%C3", "%ff", "%3c", "é%20", "a b%20"]
)
def test_what_only_looks_encoded_is_a_name(text: str) -> None:
    assert desanitize(text) == text


def test_half_a_character_is_replaced_as_java_does() -> None:
    assert sanitize("\ud800") == "%3F"
    assert desanitize("\ud800%20") == "\ud800%20"
