"""What brokers offer about usage: a real producer over its quota is recorded, and named by `quotaform top`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any, Final

import pytest
from pyarrow import parquet

from quotaform import Entity, QuotaAdmin
from quotaform.cli.main import run
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.model.settings import parse_source
from quotaform.sandbox import Sandbox
from quotaform.sandbox.tool import jmx_tool_command
from quotaform.usage.record.reader import open_reader
from quotaform.usage.sample import Attribute, Sample
from tests.broker import become
from tests.traffic import connected, make_batch, open_topic, send
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

KEY: Final = PRODUCER_BYTE_RATE.name
LIMIT: Final = 100_000.0
TOPIC: Final = "usage"


def produce(sandbox: Sandbox, is_over: Event) -> None:
    with connected(sandbox, "admin", "app") as connection:
        batch = make_batch(bytes(20_000))
        while not is_over.is_set():
            send(connection, TOPIC, batch)


def is_at_limit(sandbox: Sandbox) -> bool:
    """Whether the producer is held back; on a busy machine it takes a while to send so much."""
    sleep(0.5)
    items = open_reader(parse_source(sandbox.metrics_urls[1]), "lab").read(30.0).items
    found = {item.series.attribute: item.value for item in items if isinstance(item, Sample) and item.series.key == KEY}
    return found.get(Attribute.RATE, 0.0) > 0.9 * LIMIT and Attribute.THROTTLE_TIME in found


@pytest.fixture(scope="module")
def repository(metered_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A quota repository of a cluster on which one user produces over its quota."""
    folder = tmp_path_factory.mktemp("usage")
    config = folder / "admin.properties"
    config.write_text(metered_sandbox.client_properties("SASL_PLAINTEXT"))
    (folder / "quotaform.yaml").write_text(
        f"clusters:\n  lab:\n    bootstrap_servers: [{metered_sandbox.bootstrap_servers}]\n"
        f"    command_config: admin.properties\n    metrics: {{brokers: ['1={metered_sandbox.metrics_urls[1]}']}}\n"
    )
    open_topic(metered_sandbox, TOPIC)
    quotas = {Entity(user="admin"): {KEY: LIMIT}, Entity(ip=None): {"connection_creation_rate": 1000.0}}
    is_over = Event()
    with QuotaAdmin.connect(metered_sandbox.bootstrap_servers, command_config=config) as admin:
        become(admin, quotas)
        traffic = Thread(target=produce, args=(metered_sandbox, is_over))
        traffic.start()
        try:
            wait_until(lambda: is_at_limit(metered_sandbox))
            yield folder
        finally:
            is_over.set()
            traffic.join()
            become(admin, {})


def test_a_producer_over_its_quota_is_recorded_at_its_limit(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    assert run(["usage", "record", "--usage", "exported", "--interval", "1s", "--for", "4s", "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    [source] = summary["sources"]
    assert source["read"] + sum(gap["missed"] for gap in source["gaps"]) == 4
    assert 0 < source["bytes"] / source["read"] < 100_000
    rows = parquet.read_table(repository / "exported").to_pylist()
    assert len(rows) == summary["rows"]
    produced = [row for row in rows if row["key"] == KEY and row["user"] == "admin"]
    assert len(produced) == source["read"]
    assert max(row["rate"] for row in produced) == pytest.approx(LIMIT, rel=0.3)
    for row in produced:
        assert row["throttle_ms"] > 0
        assert (row["cluster"], row["broker"], row["client_id"], row["ip"]) == ("lab", "1", None, None)
    assert {row["ip"] for row in rows if row["key"] == "connection_creation_rate"} == {"127.0.0.1"}


def test_jmx_says_what_the_exporter_says(repository: Path, metered_sandbox: Sandbox) -> None:
    exporter = open_reader(parse_source(f"1={metered_sandbox.metrics_urls[1]}"), "lab")
    jmx = open_reader(parse_source(f"1=jmx:{metered_sandbox.jmx_addresses[1]}"), "lab", jmx_tool_command())
    found: list[dict[Any, float]] = []
    for reader in (exporter, jmx):
        items = reader.read(60.0).items
        found.append({item.series: item.value for item in items if isinstance(item, Sample)})
    assert found[0].keys() == found[1].keys()
    [rate] = [series for series in found[0] if series.key == KEY and series.attribute is Attribute.RATE]
    assert found[0][rate] == pytest.approx(found[1][rate], rel=0.3)


def test_top_names_the_bucket_the_quota_and_the_throttle_time(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)

    def throttled() -> list[dict[str, Any]]:
        assert run(["top", "--once", "--format", "json"]) == 0
        buckets = json.loads(capsys.readouterr().out)["buckets"]
        return [bucket for bucket in buckets if bucket["state"] == "throttled" and bucket["key"] == KEY]

    wait_until(throttled)
    [bucket] = throttled()
    assert (bucket["address"], bucket["source"], bucket["source_name"]) == ("user=admin", "user=admin", "User")
    assert (bucket["broker"], bucket["limit"]) == ("1", LIMIT)
    assert bucket["ratio"] == pytest.approx(1.0, rel=0.3)
    assert bucket["throttle_ms"] > 0
    assert bucket["shared_by"] == "all client-ids of admin without an entry of their own"
