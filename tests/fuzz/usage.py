"""Fuzzed: recordings of usage, which are never refused as a whole: what cannot be read is counted, in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import Final

from quotaform.core.usage.format import FORMATS
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import LONGEST_RECORD, Dropped, Rejected
from quotaform.core.usage.sample.series import Attribute, Series
from quotaform.desired.tree import SourceFile
from quotaform.desired.usage_mapping import read_usage_mapping
from quotaform.errors import InvalidFilesError
from tests.fuzz.target import Target, line_problems
from tests.usage_documents import WRITERS, Recorded

_TS: Final = 1_763_676_256
_ORIGIN: Final = Origin("prod", "1")
_MAPPINGS: Final = (
    b"columns: {ts: time, rate: bytes, user: u}\nconstants: {key: Fetch}\nfactors: {rate: 1024}\ntime_unit: ms\n",
    b'{"columns": {"ts": "t", "metric": "m", "value": "v", "labels": "l"}, "labels": {"user": "u"}}',
)


def _recorded() -> list[Recorded]:
    names = [("alice", None), ("CN=a b,O=c", 'x,"y":z\\'), (None, "app-1")]
    series = [
        Series("prod", "1", key, user, client_id, None, attribute)
        for user, client_id in names
        for key in ("producer_byte_rate", "request_percentage")
        for attribute in (Attribute.RATE, Attribute.THROTTLE_TIME)
    ]
    return [Recorded(each, _TS + step, "NaN" if step else 5.25) for each in series for step in (0, 1)]


def _corpus(name: str) -> Sequence[bytes]:
    recorded = _recorded()
    return [WRITERS[name](recorded), WRITERS[name](recorded[:2])]


def _read(name: str, document: bytes) -> None:
    for item in FORMATS[name](document, _ORIGIN, float(_TS)):
        if isinstance(item, Rejected):
            assert not list(line_problems(item.reason)), item
            assert item.position >= 0, item
            assert len(item.record) <= LONGEST_RECORD, item
            item.record.encode()
        elif isinstance(item, Dropped):
            assert item.samples > 0, item
        else:
            assert isfinite(item.value), item
            assert item.value >= 0, item
            assert item.ts > 0, item
            "".join(name for name in item.series if name).encode()


def _read_mapping(document: bytes) -> None:
    mapping, problems = read_usage_mapping(SourceFile("mapping.yaml", document))
    if mapping is None:
        raise InvalidFilesError(problems)
    assert mapping.names


TARGETS: Final = (
    *(Target(f"usage-{name}", partial(_corpus, name), partial(_read, name), ()) for name in FORMATS),
    Target("usage-mapping", lambda: _MAPPINGS, _read_mapping, (InvalidFilesError,), refused=(b"columns: {}",)),
)
