"""Drift as an operator has it: a hand edit by somebody else, who is told, what the metrics say, and when it ends."""

from __future__ import annotations

import hmac
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from socket import create_server
from time import monotonic, sleep
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quotaform.drift import alert
from quotaform.http.client import Limits
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.broker import SHORT_SESSIONS
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.http_server import HttpServer, Received, answer
from tests.waiting import wait_until
from tests.workflow.command import Cluster, Repository
from tests.workflow.test_signals import socket_that_says_nothing

pytestmark = pytest.mark.workflow

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
MIB = 2.0**20
TOKEN = "T0K3N"


def declare(repository: Repository, **rates: int) -> None:
    repository.quotas(
        "".join(
            f"  - match: {{user: {user}}}\n    values: {{{PRODUCER}: {rate}MiB/s}}\n" for user, rate in rates.items()
        )
        or "quotas: []\n"
    )


@pytest.fixture
def applied(repository: Repository, cluster: Cluster) -> Repository:
    """A repository whose files are applied."""
    declare(repository, alice=1, bob=1)
    done = repository("apply", "--auto-approve")
    assert done.code == 0, done.said
    cluster.read_until({ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: MIB}})
    return repository


@pytest.fixture
def receiver() -> Iterator[HttpServer]:
    """A webhook that takes everything."""
    with HttpServer(lambda _: answer(200, b"ok")) as server:
        yield server


def metrics(path: Path) -> dict[str, float]:
    """The samples of a file or an answer, as `name label ...`."""
    return parsed(path.read_text())


def parsed(text: str) -> dict[str, float]:
    return {
        " ".join([sample.name.removeprefix("quotaform_"), *sorted(sample.labels.values())]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def events(server: HttpServer) -> list[str]:
    """The events that arrived since the last call."""
    found = [str(received.json()["event"]) for received in server.received]
    server.received.clear()
    return found


def test_a_hand_edit_is_told_once_and_so_is_its_end(
    applied: Repository, cluster: Cluster, receiver: HttpServer
) -> None:
    arguments = ("drift", "--metrics", "q.prom", "--notify-state", "state.json")
    variables = {
        "QUOTAFORM_NOTIFY_URL": f"{receiver.url}/hook/{TOKEN}",
        "QUOTAFORM_NOTIFY_SECRET": "key",
    }

    def run(code: int) -> list[str]:
        result = applied(*arguments, env=variables)
        assert result.code == code, result.said
        assert TOKEN not in result.said
        return events(receiver)

    assert run(0) == []
    cluster.set({PRODUCER: 9 * MIB}, user="alice")
    result = applied(*arguments, env=variables)
    assert result.code == 2
    (received,) = receiver.received
    moment, _, signature = received.headers["x-quotaform-signature"].removeprefix("t=").partition(",v1=")
    assert signature == hmac.new(b"key", f"{moment}.".encode() + received.body, sha256).hexdigest()
    assert received.json()["items"][0]["address"] == "user=alice"
    assert events(receiver) == ["drift.detected"]
    first_seen = metrics(applied.path / "q.prom")["drift_first_seen_timestamp_seconds lab"]
    assert run(2) == []
    cluster.set({PRODUCER: 8 * MIB}, user="alice")
    assert run(2) == ["drift.changed"]
    samples = metrics(applied.path / "q.prom")
    assert samples["drift_entities lab modified"] == 1
    assert samples["drift_first_seen_timestamp_seconds lab"] == first_seen
    assert samples["last_notify_success lab"] == 1
    assert applied("apply", "--auto-approve").code == 0
    cluster.read_until({ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: MIB}})
    assert run(0) == ["drift.resolved"]
    assert run(0) == []
    samples = metrics(applied.path / "q.prom")
    assert samples["drift_entities lab modified"] == 0
    assert "drift_first_seen_timestamp_seconds lab" not in samples
    assert TOKEN not in applied.read("state.json")


def test_a_receipt_is_a_baseline(applied: Repository, cluster: Cluster) -> None:
    (receipt,) = applied.receipts
    declare(applied, alice=5, bob=1)
    result = applied("drift", "--baseline", receipt)
    assert (result.code, result.last) == (0, "No drift. 1 declared entity matches the cluster; 1 pending."), result.said
    cluster.set({PRODUCER: 9 * MIB}, user="alice")
    result = applied("drift", "--baseline", receipt)
    assert (result.code, result.last) == (2, "Drift: 1 modified, 0 missing, 0 unexpected; 1 in sync.")


def test_ignored_drift_pages_nobody_and_plans_show_it(
    applied: Repository, cluster: Cluster, receiver: HttpServer
) -> None:
    config = applied.read("quotaform.yaml")
    applied.config(f"{config}drift_ignore:\n- {{match: {{user: alice}}, reason: load test, expires: 2999-01-01}}\n")
    cluster.set({PRODUCER: 9 * MIB}, user="alice")
    result = applied("drift", "--notify", f"{receiver.url}/hook", "--metrics", "q.prom")
    assert result.code == 0
    assert "until 2999-01-01: load test" in result.out
    assert events(receiver) == []
    assert metrics(applied.path / "q.prom")["drift_ignored_entities lab"] == 1
    assert applied("plan", "--detailed-exitcode").code == 2


def test_a_cluster_that_is_down_hides_no_other_and_keeps_its_gauges(
    applied: Repository, cluster: Cluster, receiver: HttpServer
) -> None:
    config = applied.read("quotaform.yaml")
    applied.config(config + config.partition("clusters:\n")[2].replace("lab:", "us:"))
    cluster.set({PRODUCER: 9 * MIB}, user="alice")
    arguments = ("drift", "--all", "--metrics", "q.prom", "--notify", f"{receiver.url}/hook", "--notify-failures")
    state = ("--notify-state", "state.json")
    assert applied(*arguments, *state).code == 2
    assert events(receiver) == ["drift.detected"] * 2
    applied.config(config + "  us: {bootstrap_servers: ['127.0.0.1:1']}\n")
    for expected in (["drift.check_failed"], []):
        assert applied(*arguments, *state).code == 1
        assert events(receiver) == expected
    samples = metrics(applied.path / "q.prom")
    assert (samples["last_run_success drift lab"], samples["last_run_success drift us"]) == (1, 0)
    assert samples["drift_entities modified us"] == 1
    applied.config(config)
    assert applied("drift", "--all", "--metrics", "q.prom").code == 2
    assert not [name for name in metrics(applied.path / "q.prom") if name.endswith(" us")]


@pytest.mark.parametrize("metrics_path", ["q.prom", "{cluster}.prom"])
def test_a_check_that_ends_before_it_knows_its_clusters_is_no_success(
    applied: Repository, receiver: HttpServer, metrics_path: str
) -> None:
    arguments = ("drift", "--metrics", metrics_path, "--notify", f"{receiver.url}/hook", "--notify-failures")
    state = ("--notify-state", "state.json")
    written = applied.path / metrics_path.replace("{cluster}", "lab")
    applied.write("other.prom", "up 1\n")
    assert applied(*arguments, *state).code == 0
    assert metrics(written)["last_run_success drift lab"] == 1
    config = applied.read("quotaform.yaml")
    applied.config(f"{config}bogus: 1\n")
    for expected in (["drift.check_failed"], []):
        result = applied(*arguments, "--all", *state)
        assert (result.code, "bogus" in result.err) == (3, True)
        assert events(receiver) == expected, result.err
        assert metrics(written)["last_run_success drift lab"] == 0
    assert applied.read("other.prom") == "up 1\n"
    assert applied(*arguments, "--cluster", "u*").code == 3, "no cluster that is known fits"
    assert applied("drift", "--notify", f"{receiver.url}/hook", "--notify-failures", "--cluster", "us").code == 3
    assert events(receiver) == ["drift.check_failed"], "the cluster is named, and nothing remembers it"
    applied.config(config)
    assert applied(*arguments, *state).code == 0
    assert metrics(written)["last_run_success drift lab"] == 1
    assert events(receiver) == ["drift.resolved"]


def test_wrong_usage_is_no_failed_check(applied: Repository, receiver: HttpServer) -> None:
    arguments = ("drift", "--notify", f"{receiver.url}/hook", "--notify-failures", "--cluster", "nosuch")
    assert applied(*arguments).code == 64
    assert events(receiver) == []


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("hangs", "did not answer within 0.5 s"),
        ("fails", "answered with status 500"),
        ("redirects", "redirects to http://127.0.0.2:9, and redirects to another host"),
        ("is gone", "cannot be reached: the connection was refused"),
    ],
)
def test_a_webhook_in_trouble_is_said_and_changes_nothing_else(
    applied: Repository, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, trouble: str, said: str
) -> None:
    if trouble == "hangs":
        monkeypatch.setattr(alert, "_LIMITS", Limits(connect=30.0, total=0.5))
    monkeypatch.setattr(alert, "_TOTAL", 3.0)
    cluster.set({PRODUCER: 9 * MIB}, user="alice")
    is_well = False

    def reply(_: Received) -> bytes:
        if is_well:
            return answer(200, b"ok")
        if trouble == "hangs":
            server.is_over.wait(60)
        if trouble == "redirects":
            return answer(302, Location=f"http://127.0.0.2:9/{TOKEN}")
        return answer(500, f"<b>{TOKEN}</b>".encode())

    with HttpServer(reply) as server:
        url = "http://127.0.0.1:1" if trouble == "is gone" else server.url
        arguments = ("drift", "--notify", f"{url}/{TOKEN}", "--notify-state", "state.json", "--metrics", "q.prom")
        started = monotonic()
        result = applied(*arguments)
        assert monotonic() - started < 40
        assert result.code == 2
        assert result.last == "Drift: 1 modified, 0 missing, 0 unexpected; 1 in sync."
        (warning,) = result.err.splitlines()
        assert warning.startswith("Warning: lab: not notified: ")
        assert said in warning
        assert warning.endswith("The next run tries again")
        assert TOKEN not in result.said
        assert metrics(applied.path / "q.prom")["last_notify_success lab"] == 0
        server.received.clear()
        monkeypatch.undo()
        is_well = True
        if trouble != "is gone":
            result = applied(*arguments)
            assert (result.code, result.err) == (2, "")
            assert events(server) == ["drift.detected"]
            assert metrics(applied.path / "q.prom")["last_notify_success lab"] == 1


def test_an_empty_key_is_wrong_usage(repository: Repository) -> None:
    """An unset variable of a job must not mean that nothing is signed."""
    declare(repository)
    result = repository("drift", "--notify", "https://x.example/", env={"QUOTAFORM_NOTIFY_SECRET": ""})
    assert (result.code, "QUOTAFORM_NOTIFY_SECRET is empty" in result.err) == (64, True)


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def ask(port: int, path: str) -> str:
    with closing(urlopen(f"http://127.0.0.1:{port}{path}", timeout=60)) as found:
        return str(found.read().decode())


def await_metric(port: int, name: str, value: float) -> None:
    """Wait until a metric has a value."""
    seen: dict[str, float] = {}
    deadline = monotonic() + 120
    while monotonic() < deadline:
        try:
            seen = parsed(ask(port, "/metrics"))
        except OSError:
            seen = {}
        if seen.get(name) == value:
            return
        sleep(0.1)
    raise AssertionError(f"{name} is not {value}: {seen}")


def test_a_process_watches_through_edits_invalid_files_and_a_broker_that_is_gone(
    tmp_path: Path, receiver: HttpServer
) -> None:
    from quotaform.cluster.kafka import KafkaGateway

    with Sandbox(properties=SHORT_SESSIONS) as sandbox:
        repository = Repository(tmp_path / "repository", sandbox.bootstrap_servers)
        declare(repository, alice=1)
        assert repository("apply", "--auto-approve").code == 0
        port = free_port()
        running = repository.start(
            "drift",
            *("--watch", "1s", "--listen", f"127.0.0.1:{port}", "--notify", f"{receiver.url}/hook"),
            *("--metrics", "q.prom", "--notify-state", "state.json"),
        )
        await_metric(port, "drift_entities lab modified", 0)
        with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
            Cluster(gateway).set({PRODUCER: 9 * MIB}, user="alice")
        await_metric(port, "drift_entities lab modified", 1)
        repository.quotas("quotas: [\n")
        await_metric(port, "last_run_success drift lab", 0)
        assert parsed(ask(port, "/metrics"))["drift_entities lab modified"] == 1
        assert json.loads(ask(port, "/healthz"))["status"] == "degraded"
        declare(repository, alice=9)
        await_metric(port, "drift_entities lab modified", 0)
        sandbox.kill(1)
        await_metric(port, "last_run_success drift lab", 0)
        assert parsed(ask(port, "/metrics"))["drift_entities lab modified"] == 0
        assert json.loads(ask(port, "/healthz"))["clusters"]["lab"]["status"] == "failed"
        sandbox.restart(1)
        await_metric(port, "last_run_success drift lab", 1)
        # The file is written after the page.
        wait_until(lambda: metrics(repository.path / "q.prom")["last_run_success drift lab"] == 1)
        running.signal(signal.SIGTERM)
        started = monotonic()
        result = running.end()
        assert monotonic() - started < 9, "a connection is given up after 10 seconds"
    assert result.code == 143, result.said
    assert result.out == ""
    assert events(receiver) == ["drift.detected", "drift.resolved"]
    lines = [line.partition("Z ")[2] for line in result.err.splitlines() if "Z " in line]
    assert [line for line in lines if line.startswith(("lab: No drift", "lab: Drift"))] == [
        "lab: No drift. 1 declared entity matches the cluster.",
        "lab: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync.",
        "lab: No drift. 1 declared entity matches the cluster.",
        "lab: No drift. 1 declared entity matches the cluster.",
    ]
    assert len(lines) < 12
    assert metrics(repository.path / "q.prom")["last_run_success drift lab"] == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_a_watch_in_the_middle_of_a_read(tmp_path: Path, number: int, code: int) -> None:
    with socket_that_says_nothing() as (address, accepted):
        repository = Repository(tmp_path / "repository", address)
        declare(repository, alice=1)
        running = repository.start("drift", "--watch", "1h", "--listen", f"127.0.0.1:{free_port()}")
        assert accepted.wait(60)
        sleep(0.2)
        running.signal(number)
        started = monotonic()
        result = running.end()
        assert monotonic() - started < 9, "a connection is given up after 10 seconds"
    assert result.code == code, result.said


def test_an_address_that_is_taken_is_an_error(repository: Repository) -> None:
    declare(repository, alice=1)
    with create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        result = repository.process("drift", "--watch", "1h", "--listen", address)
    assert result.code == 1
    assert f"nothing can listen at {address}: Address already in use; give another address with --listen" in result.err


def test_a_receipt_and_its_commit_tell_pending_from_drift(applied: Repository, cluster: Cluster) -> None:
    """A receipt holds the values of what it created alone, so that any other change counted as drift."""
    git = GitRepository(applied.path)
    git.git("init", "-q", "-b", "main")
    applied.write(".gitignore", ".quotaform/\n")
    git.git("add", "-A")
    git.git("commit", "-q", "-m", "first")
    declare(applied, alice=2, bob=1)
    git.git("commit", "-qam", "second")
    # The receipt of the apply before may be of the same second, so that their names do not tell which one is the last.
    assert applied("apply", "--auto-approve", "--receipt", "receipt.json").code == 0
    cluster.read_until({ALICE: {PRODUCER: 2 * MIB}, BOB: {PRODUCER: MIB}})
    receipt = "receipt.json"
    declare(applied, alice=3, bob=3)
    result = applied("drift", "--baseline", receipt)
    assert (result.code, result.last) == (0, "No drift. 0 declared entities match the cluster; 2 pending."), result.said
    cluster.set({PRODUCER: 9 * MIB}, user="bob")
    result = applied("drift", "--baseline", receipt)
    assert (result.code, result.last) == (2, "Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync; 1 pending.")
