"""What a live entity holds that files cannot say."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from quotaform.core.check.writable import check_writable, writable_values
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity
from tests.builder import CLIENT_KEYS_TEXT

RATE = {"producer_byte_rate": 1024.0}
NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("entity", "values", "said"),
    [
        (Entity(user="a"), RATE, []),
        (Entity(user=None, client_id=None), RATE, []),
        (Entity(ip="10.0.0.1"), {"connection_creation_rate": 5.0}, []),
        (Entity(user="a\n"), RATE, []),
        (
            Entity(user="a"),
            {"producer_byte_rate": NAN},
            [
                "nan-value: producer_byte_rate is NaN, which limits nothing for some requests and blocks "
                "others; the entity is left unchanged until the files declare it"
            ],
        ),
        (
            Entity(user="a"),
            {"producer_byte_rate": 1024.5, "request_percentage": INFINITE},
            [
                "inexact-value: producer_byte_rate is 1024.5, which is not a whole number of bytes per second; "
                "the entity is left unchanged until the files declare it",
                "inexact-value: request_percentage is Infinity, which is another number than unlimited "
                "in files; the entity is left unchanged until the files declare it",
            ],
        ),
        (
            Entity(ip="10.0.0.1"),
            {"connection_creation_rate": 0.0},
            [
                "inexact-value: connection_creation_rate is 0, which newer brokers reject; "
                "the entity is left unchanged until the files declare it"
            ],
        ),
        (
            Entity(user="a"),
            {"producer_byte_rate": -INFINITE},
            [
                "inexact-value: producer_byte_rate is -Infinity, which is no limit; "
                "the entity is left unchanged until the files declare it"
            ],
        ),
        (
            Entity(user="a"),
            {"producer_byte_rate": 1e300},
            ["inexact-value: producer_byte_rate is 1"],
        ),
        (
            Entity(ip="localhost"),
            {"connection_creation_rate": 5.0},
            [
                "ip-name: localhost is not an IP address; host names are not used because a broker would have to look "
                "them up. It is left unchanged; remove it with quotaform alter ip=localhost --delete KEY and declare "
                "the address"
            ],
        ),
        (
            Entity(user=""),
            RATE,
            [
                "empty-name: user has an empty name, which no broker changes or removes (KAFKA-16411); "
                "it is left unchanged"
            ],
        ),
        (Entity(ip=""), {"connection_creation_rate": 5.0}, ["empty-name: ip has an empty name"]),
        (
            Entity({"topic": "t"}),
            RATE,
            ['unknown-type: the entity type "topic" is not known to this version; it is left unchanged'],
        ),
        (
            Entity(user="a" * 32_768),
            RATE,
            ["bad-name: the user name cannot be sent to a broker; it is left unchanged"],
        ),
        (Entity(user="å" * 16_384), RATE, ["bad-name: "]),
        (Entity(user="\ud800"), RATE, ["bad-name: "]),
        (
            Entity(user="a", ip="10.0.0.1"),
            {},
            ["bad-shape: no broker resolves this combination of types; it is left unchanged"],
        ),
        (
            Entity(user="a"),
            {"connection_creation_rate": 5.0},
            [
                "misfit-key: connection_creation_rate is not valid for this entity, which can have "
                f"{CLIENT_KEYS_TEXT}; it is left unchanged"
            ],
        ),
        (
            Entity(user="a"),
            {"x\n": NAN, **RATE},
            ['unknown-key: "x\\n" is not known to this version; it is left unchanged'],
        ),
    ],
)
def test_what_files_cannot_say_is_named(entity: Entity, values: Mapping[str, float], said: list[str]) -> None:
    found = [f"{finding.rule}: {finding.message}" for finding in check_writable(entity, values)]
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True)), found
    assert all(finding.address == entity.address for finding in check_writable(entity, values))


def test_a_finding_never_stops_the_work_and_an_unknown_key_is_only_a_note() -> None:
    findings = check_writable(Entity(user="a"), {"producer_byte_rate": NAN, "x": 1.0})
    assert [(finding.severity, finding.key) for finding in findings] == [
        (Severity.WARNING, "producer_byte_rate"),
        (Severity.NOTE, "x"),
    ]


@pytest.mark.parametrize(
    ("entity", "values", "expressible"),
    [
        (Entity(user="a"), {**RATE, "x": NAN}, RATE),
        (Entity(user="a"), {"x": 1.0}, None),
        (Entity(user="a"), {**RATE, "request_percentage": NAN}, None),
        (Entity(ip="localhost"), {"connection_creation_rate": 5.0}, None),
        (Entity(user="a"), {}, None),
    ],
)
def test_an_entity_is_said_whole_or_not_at_all(
    entity: Entity, values: Mapping[str, float], expressible: Mapping[str, float] | None
) -> None:
    assert writable_values(entity, values) == expressible
