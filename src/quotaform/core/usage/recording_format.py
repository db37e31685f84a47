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
JOLOKIA: Final = "jolokia"
OTLP: Final = "otlp"
TABLE: Final = "table"

_JSON: Final = (
    (OTLP, regex(rb'"resource_?metrics"\s*:', 2)),
    (PROMETHEUS, regex(rb'"metric"\s*:\s*\{|"resultType"\s*:|"status"\s*:\s*"(?:success|error)"')),
    (JOLOKIA, regex(rb'"mbean"\s*:|"(?:request|value)"\s*:')),
)
"""What is in the JSON of each format; the first one that is found counts."""
_EXPOSITION: Final = regex(
    rb"^(?:# (?:HELP|TYPE|UNIT|EOF)\b|[A-Za-z_:][\w:]*(?:\{[^\n]*\})?[ \t]+[-+0-9NI])", MULTILINE
)
_JMXTOOL: Final = regex(rb'^\s*"?time"?\s*(?:,\s*"?[^"\n,:=]+:[^"\n=]+=|$)', MULTILINE)
_COLUMNS: Final = regex(rb'^\s*(?:"[^"\n]*"|[\w .-]+)(?:[,;\t](?:"[^"\n]*"|[\w .-]*))+\s*$', MULTILINE)


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
    if text[:1] in (b"{", b"["):
        return next((name for name, is_in in _JSON if is_in.search(text)), None)
    if b"\0" in text:
        return TABLE if text.startswith((b"PAR1", b"ORC")) else None
    if _JMXTOOL.match(text):
        return JMXTOOL
    if _EXPOSITION.search(text):
        return EXPOSITION
    return TABLE if _COLUMNS.match(text) else None
