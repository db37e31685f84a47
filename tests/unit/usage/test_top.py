"""Who is throttled: by whose quota, in which order, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Event
from time import sleep
from unittest.mock import Mock

import pytest

import quotaform
from quotaform.cli.main import run
from quotaform.cluster.gateway import dump_snapshot
from quotaform.desired.config import Cluster
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError, MetricsError, UsageError
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.model.records.schema import gate
from quotaform.model.settings import MetricsSource
from quotaform.report.format import schema_builder
from quotaform.system.clock import SYSTEM_CLOCK
from quotaform.usage.prometheus import Prometheus
from quotaform.usage.record.reader import prometheus_reader
from quotaform.usage.record.recording import Reading
from quotaform.usage.top import BucketState, render_top
from quotaform.usage.top_reader import TopReader, top_readers
from tests.golden.usage_example import QUOTAS, row, top
from tests.http_server import HttpServer, Received, answer

from .recorded import FakeReader

KEY = "producer_byte_rate"


def test_the_last_measurement_of_a_bucket_counts_and_clients_of_one_name_are_added_up() -> None:
    """The rate of one client was shown as that of all who measure themselves under its name."""
    assert [bucket.rate for bucket in top(row(1.0, user="a")._replace(ts=2.0), row(9.0, user="a")).buckets] == [1.0]
    rows = [
        row(rate, throttle, client_id="etl")._replace(ts=ts, broker=None, instance=name)
        for rate, throttle, name, ts in ((1.0, None, "a", 1.0), (3.0, 5.0, "a", 2.0), (4.0, 7.0, "b", 1.0))
    ]
    [bucket] = top(*rows).buckets
    assert (bucket.rate, bucket.throttle_ms) == (7.0, 7.0)


# Text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 8), (20, 2)])
def test_what_is_shown_fits_the_terminal_and_what_is_left_out_is_counted(width: int, height: int) -> None:
    rows = [row(2000.0, float(number), user=f"svc-{'orders' * 5}-{number}") for number in range(1, 60)]
    lines = render_top(top(*rows), width=width, height=height).splitlines()
    assert len(lines) <= max(height, 4)
    assert max(map(len, lines)) <= width
    shown = sum(line.startswith("1 ") for line in lines)
    assert lines[-1].startswith(f"... and {59 - shown} more"[: width - 1])


# Reading


PAGE = b"""\
kafka_server_quota_byte_rate{quota_type="Produce",user="alice"} 1200.0
kafka_server_quota_throttle_time{quota_type="Produce",user="alice"} 900.0
"""


def answered(reply: Callable[[], bytes], _: int) -> bytes:
    return reply()


def reader(
    read_quotas: Callable[[], Quotas] = lambda: QUOTAS, quota_patience: float = 0.0, **readers: Callable[[], bytes]
) -> TopReader:
    return TopReader(
        "lab",
        {name: FakeReader(partial(answered, reply)) for name, reply in readers.items()},
        read_quotas,
        SYSTEM_CLOCK,
        patience=0.3,
        quota_patience=quota_patience,
    )


def test_readings_share_a_connection_until_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading logged in again, every five seconds, with a new token where a server issues tokens."""
    first, second = (Mock(**{"describe.return_value": QUOTAS}) for _ in range(2))
    monkeypatch.setattr("quotaform.usage.top_reader.open_pinned_gateway", Mock(side_effect=[first, second]))
    source = MetricsSource("1", is_jmx=False, address="http://127.0.0.1:1/metrics")
    with top_readers([Cluster(name="lab")], [source]) as ([found], _):
        assert [found.read_quotas() for _ in range(3)] == [QUOTAS] * 3
        first.close.assert_not_called()
        first.describe.side_effect = ConnectError("gone")
        with pytest.raises(ConnectError):
            found.read_quotas()
        first.close.assert_called_once()
        assert found.read_quotas() == QUOTAS
    second.close.assert_called_once()


@pytest.mark.slow
def test_a_broker_that_is_down_or_hangs_hides_no_other_and_is_not_asked_twice() -> None:
    hang, asked = Event(), []

    def hanging() -> bytes:
        asked.append(1)
        hang.wait(30)
        return PAGE

    down = Mock(side_effect=MetricsError("http://b2", "cannot be reached"))
    broken = Mock(side_effect=ValueError)
    # An unexpected error of one broker, or of the quotas, ended the whole view.
    problem = "cannot be used because of an internal error: ValueError; please report it"
    every = reader(broken, a=lambda: PAGE, b=hanging, c=down, d=broken)
    for _ in range(2):
        found = every.read()
        assert [bucket.state for bucket in found.buckets] == [BucketState.THROTTLED]
        assert [each.what for each in found.unread] == ["b", "c", "d", "the cluster"]
        assert "has not answered yet" in found.unread[0].problem
        assert [each.problem for each in found.unread[2:]] == [problem, f"{problem}; no limit is known"]
    assert len(asked) == 1
    hang.set()


def test_quotas_that_cannot_be_read_are_those_of_before() -> None:
    both = reader(Mock(side_effect=[QUOTAS, ConnectError("nobody listens.")]), a=lambda: PAGE)
    assert both.read().unread == ()
    again = both.read()
    assert again.buckets[0].limit == 1000.0
    assert again.unread[0].problem.startswith("cannot be read: nobody listens; those of 20")


@pytest.mark.slow
def test_quotas_that_come_between_two_readings_are_those_of_the_next_one() -> None:
    """They were thrown away, so that quotas which take longer than a reading were never known."""
    held = [Event(), Event()]
    waiting = list(held)

    def quotas() -> Quotas:
        waiting.pop(0).wait(30)
        return QUOTAS

    slow = reader(quotas, a=lambda: PAGE)
    first = slow.read()
    assert (first.buckets[0].limit, first.unread[0].problem.endswith("; no limit is known")) == (None, True)
    held[0].set()
    sleep(0.2)
    second = slow.read()
    assert second.buckets[0].limit == 1000.0
    assert "has not answered yet; it is not asked again before it does; those of 20" in second.unread[0].problem
    held[1].set()


@pytest.mark.slow
def test_quotas_may_take_longer_than_measurements() -> None:
    def quotas() -> Quotas:
        sleep(1.5)
        return QUOTAS

    found = reader(quotas, quota_patience=20.0, a=lambda: PAGE).read()
    assert (found.buckets[0].limit, found.unread) == (1000.0, ())


def test_a_broker_without_clients_is_no_problem_beside_one_with_some() -> None:
    idle = b'kafka_server_quota_queue_size{quota_type="Produce"} 0.0\n'
    assert reader(a=lambda: PAGE, b=lambda: idle).read().unread == ()
    [unread] = reader(b=lambda: idle).read().unread
    assert "it has no rate of a client" in unread.problem


# Prometheus


def vector(*series: dict[str, str]) -> bytes:
    result = [{"metric": labels, "value": [1763830000.5, "1200.5"]} for labels in series]
    return answer(200, {"status": "success", "data": {"resultType": "vector", "result": result}})


RATE = {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": "alice", "instance": "b1:7071"}


def ask(reply: bytes, labels: Mapping[str, str] | None = None) -> tuple[Reading, Received]:
    with HttpServer(lambda _: reply) as server:
        prometheus = Prometheus.at(f"{server.url}/prom/", {"QUOTAFORM_PROMETHEUS_TOKEN": "hidden"})
        reading = prometheus_reader(prometheus, "lab", labels or {}).read(5.0)
        return reading, server.received[0]


def test_prometheus_is_asked_for_the_series_of_a_cluster() -> None:
    labels = {"cluster": 'a"b\\'}
    reading, request = ask(vector(RATE | {"cluster": "other"}), labels)
    assert [row.cluster for row in reading.rows] == ["lab"]
    assert request.target.startswith("/prom/api/v1/query?query=%7B__name__%3D~%22")
    assert request.target.endswith("%2C+cluster%3D%22a%5C%22b%5C%5C%22%7D")
    assert request.headers["authorization"] == "Bearer hidden"


def test_series_of_other_clusters_are_left_out_and_nothing_else_is_an_error() -> None:
    reading, _ = ask(vector(RATE, RATE | {"cluster": "other", "user": "bob"}))
    assert [row.user for row in reading.rows] == ["alice"]
    with pytest.raises(MetricsError, match='has series of the clusters "other" and none of "lab"; choose with --label'):
        ask(vector(RATE | {"cluster": "other"}))


@pytest.mark.parametrize(
    ("reply", "said"),
    [(answer(401), "give a token in QUOTAFORM_PROMETHEUS_TOKEN"), (answer(404), "answered with status 404")],
)
def test_a_prometheus_that_refuses_says_what_to_do(reply: bytes, said: str) -> None:
    with pytest.raises(MetricsError, match=said):
        ask(reply)


@pytest.mark.parametrize("begin", [b"", b" ", b"\r\n", b"\xef\xbb\xbf", b"1 "])
def test_an_answer_of_very_many_values_is_not_parsed(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stood before the first bracket let 64 MiB of JSON go to the parser, which looks at no deadline."""
    monkeypatch.setattr("quotaform.usage.record.reader._MOST_VALUES", 1000)
    with pytest.raises(MetricsError, match="answered with more than 1,000 values; have it serve fewer metrics"):
        ask(answer(200, begin + b"[[]" + b",[]" * 500 + b"]"))


# The command


def test_the_command_reads_once_from_what_quotaform_yaml_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    held = {Entity(user="alice"): {KEY: 1000.0}}
    snapshot = Snapshot(cluster_name="lab", cluster_id="x", captured_at="2026-11-22T17:00:00Z", quotas=held)
    (tmp_path / "lab.json").write_text(dump_snapshot(snapshot))
    with HttpServer(lambda _: answer(200, PAGE)) as server:
        (tmp_path / "quotaform.yaml").write_text(
            f"clusters: {{lab: {{snapshot: lab.json, metrics: {{brokers: ['1={server.url}/metrics']}}}}}}\n"
        )
        assert run(["top", "--once", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert run(["top", "--once", "--source", f"1={server.url}/metrics", "--source", "2=http://127.0.0.1:1/x"]) == 1
        text = capsys.readouterr().out
        config = (tmp_path / "quotaform.yaml").read_text().replace("{lab:", "{far: {snapshot: lab.json}, lab:")
        (tmp_path / "quotaform.yaml").write_text(config)
        assert run(["top", "--once", "--all", "--format", "json"]) == 64
        both = json.loads(capsys.readouterr().out)["outcomes"]
        assert run(["top", "--once", "--all"]) == 64
        far, lab = quotaform.top(quotaform.Repository.at(), ["*"])
    assert isinstance(far.error, UsageError)
    assert [bucket.throttle_ms for bucket in lab.require().buckets] == [900.0]
    assert gate(schema_builder("top")).is_valid(found)
    [bucket] = found["buckets"]
    assert (bucket["address"], bucket["source"], bucket["throttle_ms"]) == ("user=alice", "user=alice", 900)
    assert {each["cluster"]: each["error"] is None for each in both} == {"lab": True, "far": False}
    assert "1 bucket throttled" in capsys.readouterr().out
    assert "broker 2 (http://127.0.0.1:1) cannot be reached" in text
    assert "1 bucket throttled" in text.splitlines()[0]
