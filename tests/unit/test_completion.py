"""What shells are offered for values comes from the tables."""

from __future__ import annotations

import pytest

from quotaform.cli.option.value import (
    complete_entity_type,
    complete_from,
    complete_name,
    complete_quota_key,
    complete_quota_keys,
    complete_value,
)
from tests.command_line import COMMANDS


def test_words_that_begin_as_typed_are_offered() -> None:
    assert complete_from(["text", "json"])("j") == ["json"]
    assert complete_quota_key("con") == ["consumer_byte_rate", "controller_mutation_rate", "connection_creation_rate"]
    assert complete_entity_type("") == ["user", "client-id", "ip"]
    assert complete_name("cl") == ["client-id="]


def test_the_last_item_of_a_list_is_completed() -> None:
    assert complete_quota_keys("producer_byte_rate,req") == ["producer_byte_rate,request_percentage"]
    assert complete_value("producer_byte_rate=1,req") == ["producer_byte_rate=1,request_percentage="]


@pytest.mark.parametrize(
    ("path", "option", "typed", "offered"),
    [
        ("quotaform plan", "format_name", "s", ["summary", "sarif"]),
        ("quotaform apply", "format_name", "", ["text", "json", "markdown", "html", "report"]),
        ("quotaform plan", "report", "m", ["markdown="]),
        ("quotaform plan", "out", "t", ["text="]),
        ("quotaform plan", "engine", "s", ["spark"]),
        ("quotaform describe", "format_name", "", ["text", "json", "yaml", "csv"]),
        ("quotaform describe", "quota_type", "prod", ["producer_byte_rate"]),
        ("quotaform resolve", "key", "prod", ["producer_byte_rate"]),
        ("quotaform schema", "name", "sc", ["scram", "scram-result"]),
        ("quotaform alter", "add", "prod", ["producer_byte_rate="]),
        ("quotaform import", "split", "", ["none", "prefix"]),
        ("quotaform schema", "name", "plan", ["plan"]),
    ],
)
def test_options_offer_their_values(path: str, option: str, typed: str, offered: list[str]) -> None:
    command = COMMANDS[path]
    [parameter] = [each for each in command.params if each.name == option]
    found = parameter.shell_complete(command.make_context(path, [], resilient_parsing=True), typed)
    assert [item.value for item in found] == offered
