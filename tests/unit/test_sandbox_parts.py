"""The sandbox's parts, also on a machine that others use; what it finds and refuses is `sandbox.txt`."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quotaform.cli.console import step_console
from quotaform.cli.main import run
from quotaform.model.errors import SandboxError
from quotaform.sandbox import release, tool
from quotaform.sandbox.configuration import Node, brokers_seen, free_ports, node_properties
from quotaform.sandbox.release import EXPORTER, KAFKA, RELEASES, Download, Java, kafka_download, release_of
from quotaform.sandbox.sandbox import SupervisorClient
from tests.command_line import COMMANDS
from tests.waiting import wait_until

# Jars

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}
SUMS = {f"org/{name}": hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Source:
    """Where the fake jars come from; counts how often it was asked."""

    asked = 0

    def __call__(self, path: str) -> bytes:
        self.asked += 1
        return CONTENT[path.removeprefix("org/")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache for two jars."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    monkeypatch.setattr(Download, "sums", SUMS)
    return tmp_path / KAFKA.name


@pytest.mark.parametrize(
    "damage",
    [
        lambda jar: jar.write_bytes(b"firsT"),
        lambda jar: jar.write_bytes(b"fir"),
        lambda jar: jar.unlink(),
    ],
    ids=["changed", "truncated", "deleted"],
)
def test_the_cache_is_filled_once_and_again_when_a_jar_is_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    source = Source()
    monkeypatch.setattr(release, "fetch_jar", source)
    for _ in range(2):
        jars = KAFKA.jars()
        assert {jar.name: jar.read_bytes() for jar in jars} == CONTENT
        assert {*cache.iterdir()} == {*jars}
        assert source.asked == 2
    damage(jars[0])
    assert KAFKA.jars()[0].read_bytes() == b"first"
    assert source.asked == 4


@pytest.mark.usefixtures("cache")
def test_two_that_fill_the_cache_at_once_fetch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    inside, go_on = threading.Event(), threading.Event()

    def slow(path: str) -> bytes:
        inside.set()
        assert go_on.wait(60)
        return source(path)

    monkeypatch.setattr(release, "fetch_jar", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(KAFKA.jars)
        assert inside.wait(60)
        second = pool.submit(KAFKA.jars)
        go_on.set()
        assert first.result() == second.result()
    assert source.asked == 2


def test_the_pinned_jars_are_kafka_its_logging_and_the_exporter() -> None:
    for each in RELEASES:
        sums = {Path(path).name: total for path, total in kafka_download(each).sums.items()}
        assert {f"kafka_2.13-{each}.jar", f"kafka-clients-{each}.jar", "log4j-core-2.25.4.jar"} <= sums.keys()
        assert all(len(total) == 64 for total in sums.values())
        assert release_of(map(Path, sums)) == each
        assert not each.has_zookeeper or any(name.startswith("zookeeper-") for name in sums)
    assert [Path(path).name for path in EXPORTER.sums] == ["jmx_prometheus_javaagent-1.0.1.jar"]


def test_the_reader_of_jmx_takes_few_classes_from_few_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read objects of any class in 47 jars; tests/kafka has the answers of a broker."""
    needed = [
        "jopt-simple-5.0.4",
        "kafka-clients-4.3.1",
        "kafka-server-common-4.3.1",
        "kafka-tools-4.3.1",
        "slf4j-api-2",
    ]
    others = "kafka_2.13-4.3.1 kafka-tools-api-4.3.1 commons-beanutils-1.11.0 log4j-core-2.25.4 jackson-databind-2.21.2"
    (tmp_path / "libs").mkdir()
    for name in (*needed, *others.split()):
        (tmp_path / "libs" / f"{name}.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setattr(tool, "find_java", lambda: types.SimpleNamespace(command="java"))
    command = tool.jmx_tool_command()
    assert command[command.index("-cp") + 1].split(":") == [f"{tmp_path}/libs/{name}.jar" for name in needed]
    [option] = [each for each in command if each.startswith("-Djdk.serialFilter=")]
    classes = option.split(";")
    assert classes[-1] == "!*"
    assert "javax.management.Attribute" in classes
    assert not any("*" in each for each in classes[:-1])


# Releases


def test_an_old_release_is_not_secured_on_a_new_java() -> None:
    old, new = Java(Path("java"), "17.0.15"), Java(Path("java"), "25.0.1")
    assert [each.name for each in RELEASES if not each.runs_secured_on(new)] == ["2.8", "3.3"]
    assert all(each.runs_secured_on(old) for each in RELEASES)


def test_the_help_of_the_command_names_all_releases() -> None:
    [option] = [each for each in COMMANDS["quotaform sandbox start"].params if each.name == "kafka"]
    assert re.findall(r"\d\.\d", option.help) == [each.name for each in RELEASES]


# Nodes


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def serve_once(response: bytes) -> int:
    """Answer one request with `response` on a port of its own."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(response)

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


GOOD = b"\0\0\0\1\0\0\0\0\0\0\0\0\x03ab\0\0\0\1\x04"


@pytest.mark.parametrize(
    ("response", "brokers"),
    [
        (framed(GOOD), 3),
        (framed(GOOD.replace(b"ab", b"ac")), 0),
        (framed(GOOD[:9] + b"\0\x1f" + GOOD[11:]), 0),
        (framed(GOOD[:12]), 0),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 0),
        (b"", 0),
    ],
    ids=["good", "another cluster", "error code", "truncated", "no broker", "closed"],
)
def test_a_broker_of_the_cluster_is_understood_and_nobody_else(response: bytes, brokers: int) -> None:
    assert brokers_seen(serve_once(response), "ab") == brokers
    assert brokers_seen(free_ports(1)[0], "ab") == 0


def test_a_node_of_three_knows_the_others(tmp_path: Path) -> None:
    nodes = [Node(n, tmp_path / str(n), "id", {"PLAINTEXT": n, "CONTROLLER": 10 + n}) for n in (1, 2, 3)]
    properties = node_properties(nodes[1], nodes, {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"})
    assert properties["controller.quorum.bootstrap.servers"] == "127.0.0.1:11,127.0.0.1:12,127.0.0.1:13"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:12"
    assert properties["offsets.topic.replication.factor"] == "3"
    assert nodes[1].voter == "2@127.0.0.1:12"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that everybody may write to."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(path))
    return path


PIPES = (
    "mkdir -m 700 quotaform-sandbox-x OWN OWN/inner;"
    " mkfifo quotaform-sandbox-x/supervisor.lock OWN/supervisor.lock OWN/inner/supervisor.lock"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        PIPES,
        "touch OWN",
        "mkdir -m 700 elsewhere; ln -s elsewhere OWN",
        "mkdir -m 777 OWN; mkfifo OWN/supervisor.lock",
    ],
)
def test_names_that_others_have_made_stop_no_sandbox(attack: str, shared: Path) -> None:
    """A named pipe called supervisor.lock blocked every start, and the supervisor stayed after SIGTERM."""
    own = f"quotaform-sandbox-{os.geteuid()}"
    subprocess.run(["/bin/sh", "-ec", attack.replace("OWN", own)], cwd=shared, check=True)
    client = SupervisorClient()
    directory = client.directory
    assert directory.parent == (shared / own if attack == PIPES else shared)
    assert directory.stat().st_mode & 0o777 == 0o700
    os.kill(client.pid, signal.SIGTERM)
    wait_until(lambda: os.waitpid(client.pid, os.WNOHANG) != (0, 0))
    client.stop()
    assert not directory.exists()


@pytest.mark.slow
def test_what_a_killed_supervisor_left_is_removed_and_nothing_else(shared: Path) -> None:
    killed = SupervisorClient()
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: os.waitpid(killed.pid, os.WNOHANG) != (0, 0))
    killed.stop()
    foreign = shared / "quotaform-sandbox-foreign"
    foreign.mkdir()
    (foreign / "supervisor.lock").touch()
    client = SupervisorClient()
    try:
        # The removal comes before the first answer.
        assert not killed.directory.exists()
        assert foreign.exists()
        assert client.directory.exists()
    finally:
        client.stop()


@pytest.mark.slow
def test_a_start_says_what_it_is_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an empty cache the terminal stayed empty for a minute."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)

    def fetch(path: str) -> bytes:
        raise SandboxError("no network")

    monkeypatch.setattr("quotaform.sandbox.release.fetch_jar", fetch)
    assert run(["sandbox", "start"]) == 1
    assert capsys.readouterr() == (
        "",
        "Downloading Apache Kafka 4.3.1 (once, about 45 MB) ...\nError: no network\n",
    )


@pytest.mark.slow
def test_each_step_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = step_console()
    for done in range(3):
        console.progress("Downloading", done, 3)
    console.progress("Starting", 0, 0)
    assert capsys.readouterr().err == "Downloading ...\nStarting ...\n"
