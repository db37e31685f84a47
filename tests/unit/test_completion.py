"""What shells are offered for values comes from the tables."""

from __future__ import annotations

from quotaform.cli.option.value import (
    complete_entity_type,
    complete_from,
    complete_name,
    complete_quota_key,
    complete_quota_keys,
    complete_value,
)


def test_words_that_begin_as_typed_are_offered() -> None:
    assert complete_from(["text", "json"])("j") == ["json"]
    assert complete_quota_key("con") == ["consumer_byte_rate", "controller_mutation_rate", "connection_creation_rate"]
    assert complete_entity_type("") == ["user", "client-id", "ip"]
    assert complete_name("cl") == ["client-id="]


def test_the_last_item_of_a_list_is_completed() -> None:
    assert complete_quota_keys("producer_byte_rate,req") == ["producer_byte_rate,request_percentage"]
    assert complete_value("producer_byte_rate=1,req") == ["producer_byte_rate=1,request_percentage="]
