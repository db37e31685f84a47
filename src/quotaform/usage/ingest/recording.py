"""One recording, whatever its format: a file, or a record of a topic; runs on an executor."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from json import dumps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.model.errors import FileReadError, QuotaformError
from quotaform.usage.format import FORMATS
from quotaform.usage.format.text import HEAD_BYTES, detect_format
from quotaform.usage.sample import Item, Rejected, Sample, Series, reject

if TYPE_CHECKING:
    from quotaform.usage.metric_name import Origin


class Recording(NamedTuple):
    """What is read: a file that executors see, or its content."""

    file: str  # What it is called in messages and in the quarantine
    at: float  # When it was written, in seconds since the epoch
    path: str | None = None
    content: bytes | None = None  # `None` also of a record of a topic without a value
    offset: int | None = None  # That of a record of a topic


_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""What reads compressed files, by their first bytes."""
_BROKEN: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
_UNKNOWN: Final = (
    "the file is of no format that is known: neither an answer of Prometheus, metrics of an exporter, CSV of JmxTool, "
    "JSON of OpenTelemetry, nor a table; name it with --input-format if it is one of these, or write its values into a "
    "table (docs/usage-recordings.md#tables)"
)
_TABLE: Final = "the file is a table; give --input-format table, and --mapping if its columns have other names"
_NO_CLUSTER: Final = "no label of the metrics names the cluster; give --cluster NAME, or the label with --cluster-label"


def items_of(recording: Recording, format_name: str | None, origin: Origin) -> Iterator[Item]:
    """Yield what is in a recording; all that cannot be read is rejected.

    `format_name`: its format; `None` to find out. Raises `FileReadError` if it is a file that cannot be opened.
    """
    for item in with_cluster(_items(recording, format_name, origin)):
        if isinstance(item, Rejected) and recording.offset is not None:
            item = item._replace(position=recording.offset, reason=f"offset {recording.offset}: {item.reason}")
        yield item


def _items(recording: Recording, format_name: str | None, origin: Origin) -> Iterator[Item]:
    if recording.path is None and recording.content is None:
        yield reject(0, "the record has no value", "")
        return
    head = b""
    try:
        with opened(recording) as stream:
            head = head_of(stream)
            name = format_name or detect_format(head)
            if name in FORMATS:
                # The last line of a file may be cut; that of a record is whole.
                source = stream if recording.offset is None else stream.read()
                yield from FORMATS[name](source, origin, recording.at)
            elif head.strip():
                yield reject(0, _UNKNOWN if name is None else _TABLE, head[:200].decode("utf-8", "replace"))
    except (QuotaformError, MemoryError):
        raise
    except _BROKEN as error:
        problem = "it ends too early" if isinstance(error, EOFError) else "its content is damaged"
        yield reject(0, f"the file is cut or broken, and read up to there: {problem}", "")
    except Exception as error:
        # Nothing else may end with it: a stream would meet the same record each time that it begins again.
        reason = (
            f"internal error: {type(error).__name__}, from which on nothing is read; please report it with the file"
        )
        yield reject(0, reason, head[:200].decode("utf-8", "replace"))


@contextmanager
def opened(recording: Recording) -> Iterator[IO[bytes]]:
    """Open a recording, whether or not it is compressed. Raises `FileReadError` if it cannot be opened."""
    raw: IO[bytes]
    if recording.path is None:
        raw = BytesIO(recording.content or b"")
    else:
        try:
            raw = Path(recording.path).open("rb")  # noqa: SIM115
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise FileReadError(recording.file, f"{reason} (executors read it at this path)") from error
    with raw:
        magic = raw.read(max(map(len, _OPENERS)))
        raw.seek(0)
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        yield raw if opener is None else opener(raw)


def head_of(stream: Any) -> bytes:
    """Return how a recording begins, which is read again from its beginning."""
    found = b""
    with suppress(*_BROKEN):
        while len(found) < HEAD_BYTES and (more := stream.read1(HEAD_BYTES)):
            found += more
    stream.seek(0)
    return found[:HEAD_BYTES]


def with_cluster(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items; of samples that name no cluster, and all of which are no rows, one record that says so."""
    count, first = 0, None
    for item in items:
        if isinstance(item, Sample) and item.series.cluster is None:
            count, first = count + 1, first or item.series
        else:
            yield item
    if first is not None:
        yield reject(0, f"{count:,} sample{'s' * (count > 1)}: {_NO_CLUSTER}", _names(first))


def _names(series: Series) -> str:
    return dumps({name: cell for name, cell in series._asdict().items() if cell is not None}, ensure_ascii=False)
