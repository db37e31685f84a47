"""Nothing that the operator did not list leaves the process: what an attacker's host gets is watched on its socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import create_server, socket

import pytest

from quotaform.cli.main import run
from quotaform.cluster.broker import DescribeBrokerConfig
from quotaform.http.client import Url
from quotaform.model.errors import ConnectError, MetricsError
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.sandbox.release import fetch_jar
from quotaform.usage.metric_name import Origin
from quotaform.usage.record.reader import jmx_reader
from quotaform.usage.stream import TopicGateway
from tests.fake_broker import Asked, FakeBroker, frame, messages, serving
from tests.http_server import HttpServer, answer


class Attacker:
    """A host that waits for connections; the system accepts them, so that any that began is seen."""

    def __init__(self, listening: socket) -> None:
        self.listening = listening
        self.port = listening.getsockname()[1]
        self.server = f"127.0.0.1:{self.port}"

    def got_nothing(self) -> bool:
        """Whether nobody has connected."""
        self.listening.setblocking(False)
        try:
            self.listening.accept()[0].close()
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    with closing(create_server(("127.0.0.1", 0))) as listening:
        yield Attacker(listening)


def test_a_server_of_the_command_line_is_the_operators_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("client.properties").write_text("bootstrap.servers=b1.example:9093\n")
    cluster = {"bootstrap_servers": ["b1.example:9093"], "command_config": "client.properties"}
    Path("quotaform.yaml").write_text(json.dumps({"clusters": {"lab": cluster}}))
    with serving(FakeBroker()) as broker:
        assert run(["describe", "--bootstrap-server", broker.address, "--cluster", "lab"]) == 0
        assert broker.asked


def test_brokers_that_the_cluster_names_are_held_to_the_list(
    attacker: Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is asked next, when the first is lost, and those to which Spark connects by itself."""
    broker = FakeBroker()

    def named(asked: Asked, answer: bytes) -> bytes:
        if asked.api_key != 3:
            return answer
        host, _, port = broker.address.rpartition(":")
        brokers = [(1, host, int(port), None), (2, "localhost", attacker.port, None)]
        fields = {"brokers": brokers, "cluster_id": "x", "controller_id": 1, "topics": []}
        return frame(messages()[3][1], asked.version, asked.correlation_id, **fields)

    broker.spoil = named
    with serving(broker):
        monkeypatch.setenv(ALLOWED_HOSTS, "127.0.0.1")
        with TopicGateway.connect(broker.address) as gateway:
            refused = (
                f"localhost:{attacker.port} is not listed in {ALLOWED_HOSTS}, so nothing is sent to it; correct it"
            )
            with pytest.raises(ConnectError, match=refused):
                gateway.connection.send_to(2, DescribeBrokerConfig(2, "x"), timeout=5.0)
            with pytest.raises(ConnectError, match=refused):
                gateway.topic("usage")
    assert attacker.got_nothing()


def test_no_java_is_started_for_a_host_that_is_not_listed(attacker: Attacker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_HOSTS, "b1.example")
    reader = jmx_reader(attacker.server, ["false"], Origin("lab", "1"))
    with pytest.raises(MetricsError, match=f"JMX at {attacker.server} is not listed in {ALLOWED_HOSTS}"):
        reader.read(5.0)


def test_what_the_sandbox_downloads_is_not_held_to_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """It carries no credentials, and Maven Central would have to be in every list."""
    with HttpServer(lambda _: answer(200, b"jar")) as maven:
        monkeypatch.setenv(ALLOWED_HOSTS, "*.kafka.example")
        monkeypatch.setattr("quotaform.sandbox.release._MAVEN", Url.parse(maven.url))
        assert fetch_jar("kafka.jar") == b"jar"
