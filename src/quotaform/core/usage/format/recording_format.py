"""Which format a recording has, by how it begins."""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex
from typing import Final

HEAD_BYTES: Final = 65_536
"""How many of the first bytes of a recording say what it is."""

PROMETHEUS: Final = "prometheus"
EXPOSITION: Final = "exposition"
JMXTOOL: Final = "jmxtool"
OTLP: Final = "otlp"
TABLE: Final = "table"

_JSON: Final = (
    (OTLP, regex(rb'"resource_?metrics"\s*:', 2)),
    (PROMETHEUS, regex(rb'"metric"\s*:\s*\{|"resultType"\s*:|"status"\s*:\s*"(?:success|error)"')),
)
"""What is in the JSON of each format; the first one that is found counts."""
_EXPOSITION: Final = regex(
    rb"^(?:# (?:HELP|TYPE|UNIT|EOF)\b|[A-Za-z_:][\w:]*(?:\{[^\n]*\})?[ \t]+[-+0-9NI])", MULTILINE
)
_JMXTOOL: Final = regex(
    rb"(?:Trying to connect to JMX url[^\n]*\n)?\s*"
    rb'(?:"?time"?\s*(?:,\s*"?[^"\n,:=]+:[^"\n=]+=|$)|time(?:,"|[\t=])\d[-:T.\dZ+]*"?\s*$)',
    MULTILINE,
)
_LABELS_ALONE: Final = regex(rb'\{\s*(?:[A-Za-z_]\w*\s*=|"[^"\n]+"\s*[,}])[^\n]*\}[ \t]+[-+0-9NI]')
_HEADLESS: Final = regex(rb'\s*"?\d{13}"?(?:,"?(?:[-+\d.eE]+|NaN|-?Infinity)?"?)+\s*$', MULTILINE)
_QUOTED: Final = regex(rb'"[^"\n]*"')
_COLUMNS: Final = regex(rb'^\s*(?:"[^"\n]*"|[\w .-]+)(?:[,;\t](?:"[^"\n]*"|[\w .-]*))+\s*$', MULTILINE)


_BY_TABLE: Final = "write its values into a table of CSV or Parquet, with a mapping file that says what its columns are"
_OTHERS: Final = (
    (
        regex(rb"\s*<(?:!doctype|html|\?xml)", 2),
        "a web page, not a recording; check the address, and whether it wants a login",
    ),
    (
        regex(rb"[^\n]*\} =>\s[^\n]*(?:\n[^\n]*)?@\["),
        "text of promtool; run promtool query with -o json",
    ),
    (
        regex(rb'\s*[\[{].*"(?:frames|schema)"\s*:', 16),
        "of Grafana; save what Prometheus answers to the query, or give its address with --prometheus",
    ),
    (
        regex(rb'\s*[\[{].*"pointlist"\s*:', 16),
        f"of Datadog; {_BY_TABLE}",
    ),
    (
        regex(rb'\s*[\[{].*"(?:metricset|jolokia)"\s*:\s*\{', 16),
        f"of Metricbeat; {_BY_TABLE}",
    ),
    (
        regex(rb'\s*[\[{].*"mbean"\s*:', 16),
        f"of Jolokia, which is not read any more; ingest what a Prometheus has of the brokers, or {_BY_TABLE}",
    ),
    (
        regex(
            rb'\s*[\[{](?=.*"fields"\s*:\s*\{)(?=.*"name"\s*:)|'
            rb'\s*(?:#[^\n]*\n\s*)*[^\s,={}"#]+(?:,(?:\\.|[^\s,=\\])+=(?:\\.|[^\s,\\])+)* (?:\\.|[^\s,=\\])+=[^\n]+',
            16,
        ),
        f"of Telegraf, which is not read any more; let it write to a Prometheus and ingest that, or {_BY_TABLE}",
    ),
    (
        regex(rb'"?time"?[,;][^\n]*\{[^\n]*="', 2),
        "CSV of Grafana with a column per series; save it with a column per label (Labels to fields), or save what "
        "Prometheus answers to the query",
    ),
    (
        regex(rb'#(?:group|datatype|default),|,result,table,|\s*\{\s*"results"\s*:\s*\[\s*\{[^\]]*"series"\s*:'),
        f"an answer of InfluxDB to a query; {_BY_TABLE}",
    ),
    (
        regex(rb"[\w-]+(?:\.[^\s.]+){2,} [-+\d.eE]+ \d{10}\s*$", MULTILINE),
        "of Graphite, whose paths cannot be split into the names of a bucket; record the pages of an exporter",
    ),
    (
        regex(rb"\xff\xfe|\xfe\xff|[\[{\"]\0"),
        "text in UTF-16; save it as UTF-8",
    ),
    (
        regex(rb"PK\x03\x04"),
        "a zip archive; unpack it, or compress each recording with gzip",
    ),
)
"""How recordings of other programs begin, and what they are and how they can be read."""


def other_program(head: bytes) -> str | None:
    """Return of which program a file is that has none of the formats, and the remedy; `None` if that is not known.

    >>> other_program(b"<!doctype html>")
    'a web page, not a recording; check the address, and whether it wants a login'
    """
    return next((what for begins, what in _OTHERS if begins.match(head)), None)


def csv_separator(head: bytes) -> str:
    """Return what separates the cells of the first line of CSV.

    >>> csv_separator(b'ts;key;"a,b"'), csv_separator(b"ts\\tkey"), csv_separator(b"ts")
    (';', '\\t', ',')
    """
    line = _QUOTED.sub(b"", head.lstrip().partition(b"\n")[0])
    return max((b",", b";", b"\t"), key=line.count).decode()


def detect_format(head: bytes) -> str | None:
    r"""Return the name of the format of a recording; `None` if it is of none that is known.

    >>> detect_format(b'{"status":"success","data":{"resultType":"matrix","result":[')
    'prometheus'
    >>> detect_format(b"# TYPE kafka_server_quota_byte_rate gauge\n"), detect_format(b"\x89PNG\r\n")
    ('exposition', None)

    Args:
        head: The first bytes, `HEAD_BYTES` at most, uncompressed.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _LABELS_ALONE.match(text):
        return EXPOSITION
    if text[:1] in (b"{", b"["):
        return next((name for name, is_in in _JSON if is_in.search(text)), None)
    if b"\0" in text:
        return TABLE if text.startswith((b"PAR1", b"ORC")) else None
    if _JMXTOOL.match(text) or _HEADLESS.match(text):
        return JMXTOOL
    if _EXPOSITION.search(text):
        return EXPOSITION
    return TABLE if _COLUMNS.match(text) else None
