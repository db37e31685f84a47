"""What formats share: lines and JSON of recordings, their values as samples, and which format a recording has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from io import BytesIO
from itertools import chain
from math import isnan
from re import MULTILINE
from re import compile as regex
from typing import IO, Any, Final, TypeAlias

from msgspec import Raw, ValidationError
from msgspec.json import decode

from quotaform.model.moment import read_moment
from quotaform.model.text import MIB, inert, quote, size_text
from quotaform.usage.metric import Measure, Read
from quotaform.usage.sample import Dropped, DropReason, Item, Sample, reject

Source: TypeAlias = bytes | str | IO[bytes]
"""A whole document, or a file, of which no more than a line or a JSON document has to be in memory."""

LONGEST: Final = 512 * MIB
"""The limit on bytes of a JSON document, and of a line."""


def byte_lines(source: Source) -> Iterator[bytes]:
    """Yield the lines of a recording, with their ends; of one that is too large, a byte more than the limit."""
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogateescape")
    stream = BytesIO(source) if isinstance(source, bytes) else source
    line = stream.readline(LONGEST + 1).removeprefix(b"\xef\xbb\xbf")
    while line:
        yield line
        while len(line) > LONGEST and not line.endswith(b"\n"):
            line = stream.readline(LONGEST + 1)
        line = stream.readline(LONGEST + 1)


def text_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a recording as text; a byte that is not UTF-8 spoils the name in which it stands."""
    return (line.decode("utf-8", "surrogateescape") for line in byte_lines(source))


def json_documents(
    source: Source, kind: Any, spelled: Callable[[bytes], bytes] = bytes
) -> Iterator[tuple[int, Any, bytes]]:
    """Yield the documents of a recording: the line at which one begins, from 1, what it holds, and its text.

    Each line is a document if the first one looks like one; otherwise all of them are one. Instead of what a document
    holds, there is a text that says what is wrong with it.

    `kind`: what a document is decoded as. `spelled`: returns a document as that kind has it.
    """
    numbered = enumerate(byte_lines(source), 1)
    number, first = next(((number, line) for number, line in numbered if not line.isspace()), (0, b""))
    documents: Iterable[tuple[int, bytes]] = chain([(number, first)], numbered)
    if not (first.startswith((b"{", b"[")) and first.rstrip().endswith((b"}", b"]"))):
        whole = bytearray()
        for _, line in documents:
            whole += line
            if len(whole) > LONGEST:
                break
        documents = [(number, bytes(whole))]
    for number, text in documents:
        if not text or text.isspace():
            continue
        try:
            problem = f"the document is larger than {size_text(LONGEST)}; query shorter ranges of time"
            if len(text) <= LONGEST:
                yield number, decode(spelled(text), type=kind), text
                continue
        except RecursionError:
            problem = "the document is nested too deeply"
        except ValidationError as error:
            problem = f"not as the format has it: {inert(str(error))}"
        except ValueError as error:
            why = str(error).removeprefix("JSON is malformed: ")
            problem = f"not JSON, or cut: {'it ends too early' if 'truncated' in why else inert(why)}"
        yield number, problem, text


def decoded(raw: Raw | None, kind: Any) -> Any:
    """Return a part of a document; `None` if there is none, or it is of another kind."""
    try:
        return None if raw is None else decode(raw, type=kind)
    except (ValueError, RecursionError):
        return None


Parsed: TypeAlias = Sample | DropReason | str
"""A sample, why it is left out, or what is wrong with it."""
Found: TypeAlias = tuple[int, str, Parsed | Dropped | None, object]
"""What a parser found: the position, what messages call it, the result, which a comment lacks, and its record."""


def as_items(found: Iterable[Found]) -> Iterator[Item]:
    """Yield samples, records that could not be read, and how many samples are left out.

    Something is yielded regularly, also if there are no samples, so that callers can check their deadline.
    """
    dropped: Counter[DropReason] = Counter()
    broken: Exception | None = None
    try:
        for number, (position, place, result, record) in enumerate(found, start=1):
            if isinstance(result, Sample):
                yield result
            elif isinstance(result, DropReason):
                dropped[result] += 1
            elif isinstance(result, Dropped):
                dropped[result.reason] += result.samples
            elif result is not None:
                yield reject(position, f"{place}: {result}", record)
            if not number % 10_000:
                yield Dropped(DropReason.OTHER_METRIC, dropped.pop(DropReason.OTHER_METRIC, 0))
    except Exception as error:
        # What was read of a file that is cut counts.
        broken = error
    yield from (Dropped(reason, count) for reason, count in dropped.items())
    if broken is not None:
        raise broken


HEAD_BYTES: Final = 65_536
"""How many of the first bytes of a recording say what it is."""

TABLE: Final = "table"

_JSON: Final = (
    ("otlp", regex(rb'"resource_?metrics"\s*:', 2)),
    ("prometheus", regex(rb'"metric"\s*:\s*\{|"resultType"\s*:|"status"\s*:\s*"(?:success|error)"')),
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
_COLUMNS: Final = regex(rb'^\s*(?:"[^"\n]*"|[\w .-]+)(?:[,;\t](?:"[^"\n]*"|[\w .-]*))+\s*$', MULTILINE)


def detect_format(head: bytes) -> str | None:
    """Return the name of the format of a recording; `None` if it is of none that is known.

    `head`: the first bytes, `HEAD_BYTES` at most, uncompressed.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _LABELS_ALONE.match(text):
        return "exposition"
    if text[:1] in (b"{", b"["):
        return next((name for name, is_in in _JSON if is_in.search(text)), None)
    if b"\0" in text:
        return TABLE if text.startswith((b"PAR1", b"ORC")) else None
    if _JMXTOOL.match(text) or _HEADLESS.match(text):
        return "jmxtool"
    if _EXPOSITION.search(text):
        return "exposition"
    return TABLE if _COLUMNS.match(text) else None


LATEST: Final = 253402300800.0
"""The end of the year 9999, in seconds: later times are no seconds."""
LARGEST: Final = 1e100
"""What no rate, time or total reaches. Below it, sums and rates of change of values stay finite, too."""


class TimeUnit(StrEnum):
    """What a number of a time counts since 1970."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


PER_SECOND: Final = {TimeUnit.S: 1.0, TimeUnit.MS: 1e3, TimeUnit.US: 1e6, TimeUnit.NS: 1e9}
TIME_SIZES: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which size on a number of a time counts which part of a second: seconds reach 1e11 in the year 5138, and
milliseconds passed it in 1973."""


def read_number(raw: object) -> float | None:
    """Return the number that a value of a document is or spells; `None` if it is not one.

    >>> read_number("+Inf"), read_number(" 1.5"), read_number("1_0"), read_number(True)
    (inf, 1.5, None, None)
    """
    # Python reads 1_000, which no program writes.
    if isinstance(raw, bool) or not isinstance(raw, str | int | float) or (isinstance(raw, str) and "_" in raw):
        return None
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return None


def quote_value(raw: object) -> str:
    """Return a value of a document as messages show it; of a list or an object only what it is."""
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "an object"
    return quote(str(raw))


def read_time(raw: object, unit: TimeUnit | None = None) -> float | str:
    """Return a time, in seconds since the epoch, or what is wrong with it.

    >>> {read_time(each) for each in (1.8e9, "1.8e12", 1800000000000000, "2027-01-15T08:00:00Z", "2027-01-15T08:00")}
    {1800000000.0}

    A time in ISO 8601 without a zone is in UTC. `unit`: what a number counts; `None` goes by its size.
    """
    ts = read_number(raw)
    if ts is not None:
        ts /= PER_SECOND[unit] if unit else next((parts for size, parts in TIME_SIZES if ts >= size), 1.0)
    elif isinstance(raw, str):
        with suppress(ValueError):
            ts = read_moment(raw).timestamp()
    if ts is None or not 0 < ts < LATEST:
        return f"{quote_value('' if raw is None else raw)} is not a time since 1970: neither ISO 8601 nor a number"
    return ts


def make_sample(measure: Read, ts: float | str, raw: object) -> Parsed:
    """Return the sample of a value, or why there is none, or what is wrong with its metric, its time or the value.

    `ts`: seconds since the epoch, or what is wrong with the time.
    """
    if not isinstance(measure, Measure):
        return measure
    if isinstance(ts, str):
        return ts
    number = read_number(raw)
    if number is None:
        return DropReason.MISSING if raw is None or raw == "" else f"{quote_value(raw)} is not a number"
    value = number * measure.factor
    if 0 <= value < LARGEST:
        return Sample(measure.series, ts, value, measure.window_s)
    return DropReason.NAN if isnan(value) else f"the value is {number:g}; it must lie between 0 and 1e100"
