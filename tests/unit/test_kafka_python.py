"""What is taken from kafka-python."""

from __future__ import annotations

from quotaform.cluster.wire.kafka_python import name_broker_version


def test_the_release_of_a_broker_is_told_from_what_it_speaks() -> None:
    assert name_broker_version({3: (0, 9), 18: (0, 3), 29: (0, 2)}) == "2.5"
    assert name_broker_version({}) == "0.10.0"
