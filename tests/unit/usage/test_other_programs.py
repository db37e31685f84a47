"""Recordings of programs that have none of the formats."""

from __future__ import annotations

import pytest

from quotaform.core.usage.format.recording_format import detect_format, other_program

INFLUXDB = "an answer of InfluxDB to a query; write its values into a table"
GRAPHITE = "record the pages of an exporter"


@pytest.mark.parametrize(
    ("head", "remedy"),
    [
        (b"#group,false,false\n#datatype,string,long\n#default,_result,\n,result,table,_time,_value\n", INFLUXDB),
        (b",result,table,_time,_value,_field\n,_result,0,2026-11-20T00:00:00Z,1.5,byte-rate\n", INFLUXDB),
        (b'{"results":[{"statement_id":0,"series":[{"name":"kafka","columns":["time","byte-rate"]}]}]}', INFLUXDB),
        (b"servers.b1.kafka.server.Produce.alice.byte-rate 5.5 1795000000\n", GRAPHITE),
    ],
)
def test_what_another_program_wrote_is_named_with_the_remedy(head: bytes, remedy: str) -> None:
    assert detect_format(head) is None
    assert remedy in (other_program(head) or "")


@pytest.mark.parametrize(
    "head",
    [
        b'{"results":[{"metric":{"__name__":"kafka_server_produce_byte_rate"},"values":[[1795000000,"1"]]}]}',
        b"# TYPE kafka_server_produce_byte_rate gauge\n",
        b"ts,metric,value,result,table\n",
    ],
)
def test_a_format_that_is_known_is_not_taken_for_another_programs(head: bytes) -> None:
    assert detect_format(head) is not None
    assert other_program(head) is None
