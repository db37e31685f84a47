"""kafka-python as it is installed, and as a later release may be."""

from __future__ import annotations

import logging
import subprocess
import sys
from threading import Thread

import pytest
from kafka import __version__ as installed

from quotaform.cluster.wire.driver import CONNECTION, KNOWN, SELECTOR
from quotaform.cluster.wire.hush import hushed


def connect_after(change: str) -> list[str]:
    """Connect in a process of its own, where kafka-python was changed before."""
    code = f"""
import warnings
warnings.simplefilter("ignore")
from kafka.net.connection import KafkaConnection
from kafka.net.selector import NetworkSelector
{change}
from quotaform.cluster.kafka import KafkaGateway
from quotaform.errors import ClusterError
try:
    KafkaGateway.connect("127.0.0.1:1")
except ClusterError as error:
    print(error)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


REMEDY = f'nothing was sent. {KNOWN} is known to work: pip install "kafka-python=={KNOWN}".'


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("del NetworkSelector.wait_read", "it has no NetworkSelector.wait_read"),
        ("del KafkaConnection.initialize", "it has no KafkaConnection.initialize"),
        (
            "import kafka.net.connection as c; del c.SaslReauthenticator.is_reauthenticating",
            "it has no KafkaConnection._reauth.is_reauthenticating",
        ),
        (
            "del KafkaConnection.DEFAULT_CONFIG['sasl_plain_password']",
            "its KafkaConnection has no setting sasl_plain_password",
        ),
        (
            "import kafka.errors; del kafka.errors.InvalidReceiveError",
            "cannot import name 'InvalidReceiveError' from 'kafka.errors'",
        ),
        (
            "def init(self): pass\nKafkaConnection.__init__ = init",
            "init() takes 1 positional argument but 2 were given",
        ),
    ],
)
def test_a_release_that_lacks_what_is_used_is_refused_before_anything_is_sent(change: str, why: str) -> None:
    """A patch release within the range of pyproject.toml would have failed in the middle of an apply."""
    [told] = connect_after(change)
    assert told.startswith(f"quotaform cannot work with kafka-python {installed}: {why}")
    assert told.endswith(REMEDY)


def test_the_release_that_is_installed_is_used() -> None:
    [told] = connect_after("")
    assert told.startswith("Cannot connect to 127.0.0.1:1: nothing listens")


def test_one_private_member_of_kafka_python_is_used_and_no_other() -> None:
    assert [name for name in (*SELECTOR, *CONNECTION) if name.startswith("_")] == ["_reauth.is_reauthenticating"]


class TestHush:
    def test_every_logger_of_the_hierarchy_is_hushed(self, caplog: pytest.LogCaptureFixture) -> None:
        """A fixed list of loggers would let those of a later release through, passwords included."""
        names = ["kafka", "kafka.net", "kafka.net.connection", "kafka.later", "kafka.later.release"]
        loggers = [logging.getLogger(name) for name in names]
        with caplog.at_level(logging.DEBUG):
            with hushed():
                for logger in loggers:
                    logger.error("secret")
            logging.getLogger("kafkaesque").error("theirs")
        assert [record.message for record in caplog.records] == ["theirs"]

    def test_other_threads_and_what_comes_after_are_heard(self, caplog: pytest.LogCaptureFixture) -> None:
        logger = logging.getLogger("kafka.net.transport")
        with hushed(), hushed():
            pass
        with hushed():
            other = Thread(target=logger.warning, args=("other thread",))
            other.start()
            other.join()
        logger.warning("after")
        assert [record.message for record in caplog.records] == ["other thread", "after"]
