"""Which format a recording has, by how it begins."""

from __future__ import annotations

from re import DOTALL, MULTILINE
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
_REMOVED: Final = regex(
    rb'\s*[\[{](?:.*"mbean"\s*:|(?=.*"fields"\s*:).*"tags"\s*:)|(?:#[^\n]*\n)*[^\s,={}"#]+,\S+ \S+=', DOTALL
)
"""JSON of Jolokia, JSON of Telegraf, and the lines that Telegraf writes for InfluxDB."""


def is_removed(head: bytes) -> bool:
    """Whether a recording of no known format is one of Jolokia or Telegraf, which earlier versions read."""
    return _REMOVED.match(head) is not None


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
