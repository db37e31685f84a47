"""kafka-python as it is installed, and as a later release may be."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from kafka import __version__ as installed

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.kafka_python import KNOWN, make_sasl_mechanism, name_broker_version
from quotaform.model.secret import Secret


def connect_after(change: str, mechanism: str) -> list[str]:
    """Connect in a process of its own, where kafka-python was changed before."""
    code = f"""
import warnings
warnings.simplefilter("ignore")
import kafka.net.sasl as sasl
{change}
warnings.simplefilter("error")
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.errors import ClusterError
from quotaform.model.secret import Secret
config = ClientConfig(security_protocol="SASL_PLAINTEXT", sasl_mechanism="{mechanism}", sasl_username="alice",
                      sasl_password=Secret("alice-secret"))
try:
    KafkaGateway.connect("127.0.0.1:1", config)
except ClusterError as error:
    print(error)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "mechanism", "why"),
    [
        ("del sasl.get_sasl_mechanism", "PLAIN", "ImportError: cannot import name 'get_sasl_mechanism'"),
        pytest.param("del sasl.SASL_MECHANISMS['PLAIN']", "PLAIN", "KeyError: 'PLAIN'", marks=pytest.mark.exhaustive),
        pytest.param(
            "del sasl.abc.SaslMechanism.is_done, sasl.plain.SaslMechanismPlain.is_done",
            "PLAIN",
            "AttributeError: ",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "sasl.scram.SaslMechanismScram.__init__ = lambda self: None",
            "SCRAM-SHA-256",
            "TypeError: ",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_release_that_lacks_what_is_used_is_refused_before_anything_is_sent(
    change: str, mechanism: str, why: str
) -> None:
    """A patch release within the range of pyproject.toml would have failed in the middle of an apply."""
    [told] = connect_after(change, mechanism)
    assert told.startswith(f"quotaform cannot use the SASL mechanism {mechanism} of kafka-python {installed} ({why}")
    assert told.endswith(f'nothing was sent. {KNOWN} is known to work: pip install "kafka-python=={KNOWN}".')
    assert "secret" not in told


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.exhaustive)])
def test_the_release_that_is_installed_is_used(mechanism: str) -> None:
    [told] = connect_after("", mechanism)
    assert told.startswith("Cannot connect to 127.0.0.1:1: nothing listens")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_nothing_is_logged(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning went to the terminal of whoever uses SASL_PLAINTEXT."""
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="alice",
        sasl_password=Secret("alice-secret"),
    )
    with caplog.at_level(logging.DEBUG):
        make_sasl_mechanism(config, "localhost").auth_bytes()
    assert caplog.records == []


def test_the_release_of_a_broker_is_told_from_what_it_speaks() -> None:
    assert name_broker_version({3: (0, 9), 18: (0, 3), 29: (0, 2)}) == "2.5"
    assert name_broker_version({}) == "0.10.0"
