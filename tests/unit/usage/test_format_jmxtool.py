"""Tables of Kafka's JmxTool."""

from __future__ import annotations

import pytest

from quotaform.core.usage.format.jmxtool import parse_jmxtool, parse_jmxtool_lines
from quotaform.core.usage.format.recording_format import detect_format
from quotaform.core.usage.sample.sample import DropReason, Item, Sample
from quotaform.core.usage.sample.series import Attribute

from .recorded import DATA, ORIGIN, TS, dropped, reasons, samples, series, values

ALICE = "kafka.server:type=Produce,user=alice:byte-rate"
MILLISECONDS = int(TS * 1000)


def parse(*lines: str, end: str = "\n") -> list[Item]:
    return list(parse_jmxtool("\n".join(lines) + end, ORIGIN))


def test_a_table_of_a_real_broker_is_read() -> None:
    items = list(parse_jmxtool((DATA / "jmxtool.csv").read_bytes(), ORIGIN))
    assert len(samples(items)) == 60
    assert dropped(items) == {DropReason.NAN: 36}
    assert reasons(items) == []
    tenant = series(user="CN=tenant a,O=Tenants", attribute=Attribute.THROTTLE_TIME)
    assert Sample(tenant, 1795212256.157, 351.93939393939394, 11.5) in items


@pytest.mark.parametrize(
    ("cell", "ts"),
    [
        (str(MILLISECONDS), TS),
        ("2025-11-20T22:04:16Z", TS),
        ("2025-11-20T22:04:16.000Z", TS),
        ("2025-11-20T23:04:16+0100", TS),
        ("2025-11-20 22:04:16", TS),
    ],
)
def test_a_time_is_milliseconds_or_iso_8601(cell: str, ts: float) -> None:
    assert values(parse(f'"time","{ALICE}"', f"{cell},5.5")) == [(ts, 5.5)]


@pytest.mark.parametrize(
    "name",
    [
        'kafka.server:type=Fetch,client-id="a,b:c":byte-rate',
        'kafka.server:client-id="a,b:c",type=Fetch:byte-rate',
        'kafka.server:type=Fetch,client-id=""a,b:c"":byte-rate',
    ],
)
def test_quotes_within_an_object_name_are_read_as_written_and_as_other_programs_double_them(name: str) -> None:
    items = parse(f'"time","{name}","{ALICE}"', f"{MILLISECONDS},1,2")
    assert [item.series for item in samples(items)] == [
        series("consumer_byte_rate", client_id="a,b:c"),
        series(user="alice"),
    ]


def test_a_header_without_quotes_is_read() -> None:
    items = parse("time,kafka.server:type=Request:request-time", f"{MILLISECONDS},1")
    assert dropped(items) == {DropReason.BROKER_TOTAL: 1}


def test_a_header_stands_again_where_a_run_was_appended() -> None:
    bob = ALICE.replace("alice", "bob")
    items = parse(f'"time","{ALICE}"', f"{MILLISECONDS},1", f'"time","{bob}","{ALICE}"', f"{MILLISECONDS + 1000},2,3")
    assert samples(items) == [
        Sample(series(user="alice"), TS, 1, 11.5),
        Sample(series(user="bob"), TS + 1, 2, 11.5),
        Sample(series(user="alice"), TS + 1, 3, 11.5),
    ]


def test_cells_that_are_empty_or_no_numbers_are_counted_or_rejected() -> None:
    fetch = ALICE.replace("Produce", "Fetch")
    items = parse(f'"time","{ALICE}","{fetch}"', f"{MILLISECONDS},,NaN", f"{MILLISECONDS},x,-1", f"{MILLISECONDS},7,8")
    assert values(items) == [(TS, 7.0), (TS, 8.0)]
    assert dropped(items) == {DropReason.MISSING: 1, DropReason.NAN: 1}
    assert reasons(items) == [
        'line 3, column 2: "x" is not a number',
        "line 3, column 3: the value is -1; a rate is never negative",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{MILLISECONDS}", "line 2: 1 cells, but the header has 2; it may be cut"),
        (f"{MILLISECONDS},1,2", "line 2: 3 cells, but the header has 2; it may be cut"),
        ("20.11.2026,1", 'line 2: "20.11.2026" is not a time in ISO 8601 or milliseconds; run JmxTool with '
         "--date-format \"yyyy-MM-dd'T'HH:mm:ss.SSSX\", or without it"),
        ('"', "line 2: 1 cells, but the header has 2; it may be cut"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_rejected_alone(line: str, reason: str) -> None:
    items = parse(f'"time","{ALICE}"', line, f"{MILLISECONDS},7")
    assert reasons(items) == [reason]
    assert values(items) == [(TS, 7.0)]


def test_lines_without_a_header_are_rejected() -> None:
    assert [reason[:48] for reason in reasons(parse("1,2", "3,4"))] == [
        "line 1: there is no header above it; JmxTool wri",
        "line 2: there is no header above it; JmxTool wri",
    ]


def test_a_column_that_cannot_be_read_is_rejected_once_and_the_others_are_read() -> None:
    ip = "kafka.server:type=socket-server-metrics,ip=host:connection-accept-rate"
    items = parse(f'"time","{ip}","{ALICE}"', f"{MILLISECONDS},1,2", f"{MILLISECONDS},3,4")
    assert reasons(items) == ['line 1, column 2: "host" is not an IP address; all of the column is left out']
    assert values(items) == [(TS, 2.0), (TS, 4.0)]


def test_the_last_value_of_a_file_that_ends_within_a_line_may_be_cut() -> None:
    lines = (f'"time","{ALICE}"', f"{MILLISECONDS},17", f"{MILLISECONDS},1")
    items = parse(*lines, end="")
    assert values(items) == [(TS, 17.0)]
    assert reasons(items) == ["line 3, column 2: the file ends here, the value may be cut"]
    assert values(parse(*lines[:2], end="")) == [(TS, 17.0)], "a message of one poll needs no line end"


def test_lines_may_come_one_by_one() -> None:
    lines = [f'\ufeff"time","{ALICE}"\n', f"{MILLISECONDS},17\r\n", "\n", f"{MILLISECONDS},18\n"]
    assert values(parse_jmxtool_lines(lines, ORIGIN)) == [(TS, 17.0), (TS, 18.0)]


REPORTS = {
    "csv": 'time,"{time}"\n{rate},"5.5"\n{throttle},"NaN"\n{queue},"0"\n',
    "tsv": "time\t{time}\n{rate}\t5.5\n{throttle}\tNaN\n{queue}\t0\n",
    "properties": "time={time}\n{rate}=5.5\n{throttle}=NaN\n{queue}=0\n",
}


@pytest.mark.parametrize(
    "message", ["", "Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://b1:9999/jmxrmi\n"]
)
@pytest.mark.parametrize("time", [str(int(TS * 1000)), "2025-11-20T22:04:16Z"])
@pytest.mark.parametrize("report", REPORTS)
def test_other_reports_have_a_line_per_value(report: str, time: str, message: str) -> None:
    """Only the report that is made by default was known."""
    mbean = 'kafka.server:type=Produce,user=CN%3Da,client-id="a,b=\\"x\\*\\":y"'
    queue = "kafka.server:type=Fetch:queue-size"
    names = {"rate": f"{mbean}:byte-rate", "throttle": f"{mbean}:throttle-time", "queue": queue}
    text = message + REPORTS[report].format(time=time, **names) + REPORTS[report].format(time="1795000000000", **names)
    assert detect_format(text.encode()) == "jmxtool"
    items = list(parse_jmxtool(text, ORIGIN))
    assert values(items) == [(TS, 5.5), (1_795_000_000.0, 5.5)]
    assert {sample.series for sample in samples(items)} == {series(user="CN=a", client_id='a,b="x*":y')}
    assert dropped(items) == {DropReason.NAN: 2, DropReason.OTHER_ATTRIBUTE: 2}
    assert not reasons(items)


def test_broken_lines_of_other_reports_are_rejected() -> None:
    text = (
        "time=soon\nkafka.server:type=Produce,user=a:byte-rate=1\n"
        f"time={int(TS * 1000)}\nkafka.server:type=Produce,user=a:byte-rate=2\nkafka.server:type=Produce,us\n"
        "kafka.server:type=Produce,user=a:byte-rate=much\nkafka.server:type=Produce,user=b:byte-rate=3"
    )
    items = list(parse_jmxtool(text, ORIGIN))
    assert values(items) == [(TS, 2.0)]
    first, *others = reasons(items)
    assert first.startswith('line 1: "soon" is not a time')
    assert others == [
        "line 2: the time above it cannot be read",
        "line 5: neither a time nor an attribute with its value, or cut",
        'line 6: "much" is not a number',
        "line 7: the file ends here, the value may be cut",
    ]
