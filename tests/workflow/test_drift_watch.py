"""A process that watches: through edits, invalid files, and a broker that is gone.

What one run notifies and writes is in `tests/golden/story-notify.txt`.
"""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path
from socket import create_server
from time import monotonic, sleep
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quotaform.cluster.kafka import KafkaGateway
from tests.broker import SHORT_SESSIONS
from tests.builder import MIB, PRODUCER
from tests.faulty_sandbox import FaultySandbox
from tests.http_server import HttpServer, answer
from tests.waiting import wait_until
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow


def declare(repository: Repository, rate: int) -> None:
    repository.quotas(f"  - match: {{user: alice}}\n    values: {{{PRODUCER}: {rate}MiB/s}}\n")


def metrics(text: str) -> dict[str, float]:
    """Return the samples of a file or an answer, as `name label ...`."""
    return {
        " ".join([sample.name.removeprefix("quotaform_"), *sorted(sample.labels.values())]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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
            seen = metrics(ask(port, "/metrics"))
        except OSError:
            seen = {}
        if seen.get(name) == value:
            return
        sleep(0.1)
    raise AssertionError(f"{name} is not {value}: {seen}")


def test_a_process_watches_through_edits_invalid_files_and_a_broker_that_is_gone(
    tmp_path: Path,
) -> None:
    with HttpServer(lambda _: answer(200)) as receiver, FaultySandbox(properties=SHORT_SESSIONS) as sandbox:
        repository = Repository(tmp_path / "repository", sandbox.bootstrap_servers)
        declare(repository, 1)
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
        assert metrics(ask(port, "/metrics"))["drift_entities lab modified"] == 1
        assert json.loads(ask(port, "/healthz"))["status"] == "degraded"
        declare(repository, 9)
        await_metric(port, "drift_entities lab modified", 0)
        sandbox.kill(1)
        await_metric(port, "last_run_success drift lab", 0)
        assert metrics(ask(port, "/metrics"))["drift_entities lab modified"] == 0
        assert json.loads(ask(port, "/healthz"))["clusters"]["lab"]["status"] == "failed"
        sandbox.restart(1)
        await_metric(port, "last_run_success drift lab", 1)
        # The file is written after the page.
        wait_until(lambda: metrics(repository.read("q.prom"))["last_run_success drift lab"] == 1)
        running.signal(signal.SIGTERM)
        started = monotonic()
        result = running.end()
        assert monotonic() - started < 9, "a connection is given up after 10 seconds"
    assert result.code == 143, result.said
    assert result.out == ""
    assert [received.json()["event"] for received in receiver.received] == ["drift.detected", "drift.resolved"]
    lines = [line.partition("Z ")[2] for line in result.err.splitlines() if "Z " in line]
    assert [line for line in lines if line.startswith(("lab: No drift", "lab: Drift"))] == [
        "lab: No drift. 1 declared entity matches the cluster.",
        "lab: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync.",
        "lab: No drift. 1 declared entity matches the cluster.",
        "lab: No drift. 1 declared entity matches the cluster.",
    ]
    assert len(lines) < 12
    assert metrics(repository.read("q.prom"))["last_run_success drift lab"] == 1
