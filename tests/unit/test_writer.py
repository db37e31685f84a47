"""Quotas as a file that people would write."""

from __future__ import annotations

import pytest

from quotaform.desired.writable import check_writable
from quotaform.desired.writer import render_quotas, spell_scalar
from quotaform.model.entity import Entity

RATE = {"producer_byte_rate": 1024.0}


def test_a_file_looks_as_if_somebody_had_written_it() -> None:
    text, findings = render_quotas(
        {
            Entity(user="svc-orders"): {
                "request_percentage": 150.0,
                "producer_byte_rate": 20 * 2.0**20,
                "consumer_byte_rate": 50e6,
            },
            Entity(user=None, client_id="etl"): {"controller_mutation_rate": 5.0},
            Entity(user="<default>"): RATE,
            Entity(user="CN=a,O=Example"): {"producer_byte_rate": 2.0**63},
            Entity(ip="2001:db8::1"): {"connection_creation_rate": 50.0},
            Entity(ip="10.0.0.1"): {"connection_creation_rate": 2147483647.0},
        }
    )
    assert findings == []
    assert (
        text
        == """\
# yaml-language-server: $schema=../schemas/quotas.schema.json
quotas:
  - match: {ip: 10.0.0.1}
    values:
      connection_creation_rate: unlimited

  - match: {ip: "2001:db8::1"}
    values:
      connection_creation_rate: 50/s

  - match: {user: {name: "<default>"}}
    values:
      producer_byte_rate: 1KiB/s

  - match: {user: "CN=a,O=Example"}
    values:
      producer_byte_rate: unlimited

  - match: {user: <default>, client-id: etl}
    values:
      controller_mutation_rate: 5/s

  - match: {user: svc-orders}
    values:
      producer_byte_rate: 20MiB/s
      consumer_byte_rate: 50MB/s
      request_percentage: 150%
"""
    )


def test_a_long_match_is_written_on_several_lines() -> None:
    name = "CN=" + "a" * 80
    text, _ = render_quotas({Entity(user=name, client_id="<default>"): RATE}, schema=None)
    assert text == (
        f'quotas:\n  - match:\n      user: {name}\n      client-id: {{name: "<default>"}}\n'
        "    values:\n      producer_byte_rate: 1KiB/s\n"
    )


def test_nothing_is_an_empty_list() -> None:
    assert render_quotas({}, schema=None) == ("quotas: []\n", [])


def test_what_files_cannot_say_is_left_out_and_named() -> None:
    text, findings = render_quotas(
        {
            Entity(user="a"): {"producer_byte_rate": 1.5, "consumer_byte_rate": 1.0},
            Entity(user="b"): {**RATE, "future_rate": 1.0},
            Entity(ip="localhost"): {"connection_creation_rate": 1.0},
        },
        schema=None,
    )
    assert text == "quotas:\n  - match: {user: b}\n    values:\n      producer_byte_rate: 1KiB/s\n"
    assert [(finding.address, finding.rule) for finding in findings] == [
        ("ip=localhost", "ip-name"),
        ("user=a", "inexact-value"),
        ("user=b", "unknown-key"),
    ]


@pytest.mark.parametrize("name", ["a" * 32_768, "å" * 16_384])
def test_a_name_that_cannot_be_sent_is_left_out(name: str) -> None:
    (finding,) = check_writable(Entity(user=name), RATE)
    assert finding.rule == "bad-name"


def test_a_name_is_spelled_the_same_whoever_was_read_before() -> None:
    # Regression: the name was compared by identity with a cached reading of an equal text.
    first, second = ("".join(["10.0.", end]) for end in ("0.9", "0.9"))
    assert spell_scalar(first) == spell_scalar(second) == "10.0.0.9"
