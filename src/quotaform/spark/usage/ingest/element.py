"""The series elements of Prometheus' JSON, with their values as arrays: a document of gigabytes has millions of pairs.

What is written as Prometheus does is read without a step of Python per sample. Everything else is read by
`quotaform.core.usage.format.prometheus`, which says exactly what is wrong; both read the same.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder
from re import Match
from re import compile as regex
from typing import TYPE_CHECKING, Final

import numpy
import pyarrow

from quotaform.core.usage.format.json_text import TOO_LONG
from quotaform.core.usage.format.prometheus import NAME_LABEL, parse_element, read_frame
from quotaform.core.usage.metric.metric import read_metric
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import DropReason, Rejected, Unreadable, reject
from quotaform.core.usage.sample.value import LARGEST, LATEST
from quotaform.model.text import explain_json_error
from quotaform.spark.usage.ingest.parsed_rows import ParsedRows, internal_error

if TYPE_CHECKING:
    from quotaform.spark.usage.ingest.part import Part

_VALUES: Final = regex(rb'\}\s*,\s*"values"\s*:\s*\[')
_END: Final = regex(rb"\]\s*\]\s*\}")
_METRIC: Final = regex(rb'\{\s*"metric"\s*:\s*')
_BETWEEN: Final = regex(rb"\s*,?\s*")
_BETWEEN_ELEMENTS: Final = frozenset({"", ","})
_SHOWN: Final = 1000
_NUMBERS: Final = b"0123456789.eE+-NaIinf"
_SPACES: Final = b" \t\r\n"
_INNER_SPACE: Final = regex(rb"[^\[\],\s]\s+[^\[\],\s]")
_PUNCTUATION: Final = b'[]"'
_PAIR: Final = b'[,""],'
_DECODER: Final = JSONDecoder()


def add_element(part: Part, origin: Origin, rows: ParsedRows, file: str, *, head: str | None) -> str | None:
    """Add what an element says.

    Args:
        part: The element, with what stands behind it up to the next one.
        head: What stands before the first element of the answer; `None` if the file ends for another reason.

    Returns:
        The same for the element that follows.
    """
    if part.is_cut:
        rows.add_rejected(_rejected(part, "the series is too large; query shorter ranges of time"), file)
        return head
    try:
        end = _add_fast(part, origin, rows, file)
    except Exception as error:
        rows.add_rejected(_shifted(internal_error(error, 1, "series 1: "), part), file)
        return head
    if end is None:
        text = part.data.decode("utf-8", "surrogateescape")
        try:
            element, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError) as error:
            message = f"nested too deeply, or {TOO_LONG}"
            if isinstance(error, JSONDecodeError):
                _, message = explain_json_error(error)
            rows.add_rejected(_rejected(part, f"not JSON, or cut: {message}"), file)
            return head
        rows.add_items(parse_element(element, origin, 1), file, lambda item: _shifted(item, part))
        behind = text[end:]
    else:
        behind = part.data[end:].decode("utf-8", "surrogateescape")
    if head is not None and (part.is_last or behind.strip() not in _BETWEEN_ELEMENTS):
        frame = read_frame(head, behind, is_last=part.is_last)
        for problem in frame.problems:
            rows.add_rejected(_rejected(part, problem), file)
        return frame.head
    return head


def _rejected(part: Part, reason: str) -> Rejected:
    data = part.data[:_SHOWN].decode("utf-8", "surrogateescape")
    return reject(part.position, f"series at byte {part.position}: {reason}", data)


def _shifted(item: Rejected, part: Part) -> Rejected:
    """Return a record of an element with its place in the file instead of the number of the series."""
    reason = item.reason.removeprefix("series 1") if item.position else f": {item.reason}"
    return item._replace(position=part.position, reason=f"series at byte {part.position}{reason}")


def _add_fast(part: Part, origin: Origin, rows: ParsedRows, file: str) -> int | None:
    """Add an element if it is written as Prometheus does, and nothing is wrong in it.

    Returns:
        Where it ends; `None` if it was not added.
    """
    data = part.data
    begin, metric = _VALUES.search(data), _METRIC.match(data)
    if begin is None or metric is None:
        return None
    close = _values_end(data, begin.end(), is_last=part.is_last)
    if close is None:
        return None
    labels = _labels(data[metric.end() : begin.start() + 1])
    if labels is None or not labels.get(NAME_LABEL):
        return None
    measure = read_metric(labels[NAME_LABEL], labels, origin)
    if isinstance(measure, Unreadable):
        return None
    found = pairs(data[begin.end() : close.start() + 1])
    if found is None:
        return None
    ts, values = found
    if isinstance(measure, DropReason):
        rows.add_dropped(measure, len(ts))
        return close.end()
    is_number = ~numpy.isnan(values)
    if not ((ts > 0) & (ts < LATEST)).all():
        return None
    if not is_number.all():
        ts, values = ts[is_number], values[is_number]
    if measure.factor != 1:
        values = values * measure.factor
    if not ((values >= 0) & (values < LARGEST)).all():
        return None
    if nans := len(is_number) - len(values):
        rows.add_dropped(DropReason.NAN, nans)
    if len(values):
        rows.add_series(measure.series, measure.window_s, ts, values, file, part.position)
    return close.end()


def _values_end(data: bytes, begin: int, *, is_last: bool) -> Match[bytes] | None:
    """Find the end of the values and of the element, if nothing but a comma stands behind it, or it is the last one."""
    if is_last:
        # The brackets at the very end are those of the whole document.
        return _END.search(data, begin)
    end = data.rfind(b"]", begin, data.rfind(b"]"))
    close = _END.match(data, end) if end >= 0 else None
    return close if close is not None and _BETWEEN.fullmatch(data, close.end()) else None


def _labels(data: bytes) -> dict[str, str] | None:
    try:
        labels = _DECODER.decode(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    is_usable = isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
    return labels if is_usable else None


def pairs(data: bytes) -> tuple[numpy.ndarray, numpy.ndarray] | None:
    """Return times and values of `[ts,"value"],[ts,"value"]`; `None` if it is written in another way.

    >>> ts, values = pairs(b'[1795000000,"1.5"],[1795000060.5,"NaN"]')
    >>> ts.tolist(), values.tolist()
    ([1795000000.0, 1795000060.5], [1.5, nan])
    >>> pairs(b'[1795000000,"1"],[1795000060]') is None
    True
    """
    if any(space in data for space in (b" ", b"\n", b"\t", b"\r")):
        if _INNER_SPACE.search(data):
            return None
        data = data.translate(None, _SPACES)
    skeleton = data.translate(None, _NUMBERS)
    count = (len(skeleton) + 1) // len(_PAIR)
    if not count or skeleton != (_PAIR * count)[:-1] or not _has_numbers_within(data, count):
        return None
    bare = data.translate(None, _PUNCTUATION)
    commas = numpy.flatnonzero(numpy.frombuffer(bare, numpy.uint8) == ord(","))
    joined = bare.replace(b",", b"")
    offsets = numpy.empty(2 * count + 1, numpy.int32)
    offsets[0], offsets[-1] = 0, len(joined)
    offsets[1:-1] = commas - numpy.arange(len(commas))
    texts = pyarrow.StringArray.from_buffers(2 * count, pyarrow.py_buffer(offsets), pyarrow.py_buffer(joined))
    try:
        numbers = texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:
        return None
    return numbers[::2], numbers[1::2]


def _has_numbers_within(data: bytes, count: int) -> bool:
    """Whether nothing stands between the signs of so many pairs where no number belongs."""
    is_closed = data.startswith(b"[") and data.endswith(b'"]')
    return is_closed and data.count(b'"],[') == count - 1 and data.count(b',"') == count
