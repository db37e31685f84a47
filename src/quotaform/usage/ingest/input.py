"""What an ingest reads before Spark starts: the mapping of a table's columns, and the answers of a Prometheus.

Prometheus refuses more than 11,000 points per series, and an answer has to fit into memory here, so that slices are
short; one whose answer is too large, or too much for the server, is asked for in two halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from json import loads
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

from quotaform.desired.shape import check_shape
from quotaform.desired.tree import SourceFile, decode, shown_path
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.http.client import Timeouts
from quotaform.http.message import Response
from quotaform.model import rule
from quotaform.model.errors import ArgumentError, HttpError, InvalidFilesError, MetricsError
from quotaform.model.finding import Finding
from quotaform.model.text import MIB, option_of, quote
from quotaform.system.files import read_bytes
from quotaform.usage.format.table import TableMapping, mapping_problem, usage_mapping
from quotaform.usage.record.reader import QUERY, Prometheus


def load_usage_mapping(path: Path) -> TableMapping:
    """Return the mapping in a file.

    Raises `FileReadError` if it cannot be read, or is too large, and `InvalidFilesError` as `read_usage_mapping` does.
    """
    return read_usage_mapping(SourceFile(shown_path(path), read_bytes(path, MIB)))


def read_usage_mapping(source: SourceFile) -> TableMapping:
    """Return the mapping in a text, YAML or JSON. Raises `InvalidFilesError` if it is invalid; all problems at once."""
    text = decode(source)
    if isinstance(text, Finding):
        raise InvalidFilesError([text])
    document = read_document(source.name, text)
    mapping = None
    with suppress(StopReadingError):
        if not document.errors:
            check_shape(usage_mapping, document)
        if not document.errors:
            mapping = convert(document.root, TableMapping)
            if problem := mapping_problem(mapping):
                document.add_at(rule.BAD_MAPPING, problem[1], document.locate(problem[0]).key)
    findings = document.findings.all()
    if mapping is None or findings:
        raise InvalidFilesError(findings)
    return mapping


DEFAULT_QUERY: Final = f'{{__name__=~"{QUERY}"}}'
"""All metrics of client quotas."""
_POINTS: Final = 360
"""The points per series of a slice, at first; 10,000 series have some 90 MB then."""
_FEWEST_POINTS: Final = 2
_LIMITS: Final = Timeouts(total=120.0)
_TOO_MUCH: Final = frozenset({413, 422, 500, 503, 504})
"""The statuses of a query that loads too many samples, or takes too long."""


class RangeQuery(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    server: Prometheus
    queries: Sequence[str] = (DEFAULT_QUERY,)  # What to ask, in PromQL
    since: float  # The first time, in seconds since the epoch
    until: float  # The last time
    step: float  # The seconds between two points


def make_range_query(
    server: Prometheus, queries: Sequence[str], since: datetime, until: datetime, step: float
) -> RangeQuery:
    """Return what is asked for between two times, at multiples of the step: another ingest asks for the same times.

    Raises `UsageError` if the step is shorter than a second.
    """
    if step < 1:
        raise ArgumentError("{step}: must be 1s or longer")
    begin = -(-since.timestamp() // step) * step
    return RangeQuery(server=server, queries=queries, since=begin, until=max(begin, until.timestamp()), step=step)


def save_answers(query: RangeQuery, folder: Path, progress: Callable[[int, int], None]) -> None:
    """Write the answers to a folder, a file per query and slice.

    `progress`: called with how many points per series are there, and how many there will be. Raises `MetricsError` if
    there is no answer that can be used.
    """
    points = int((query.until - query.since) // query.step) + 1
    for number, text in enumerate(query.queries):
        slices = [(begin, min(begin + _POINTS, points)) for begin in range(0, points, _POINTS)]
        while slices:
            begin, end = slices.pop(0)
            body = _answer(query, text, begin, end)
            if body is None:
                middle = (begin + end) // 2
                slices[:0] = [(begin, middle), (middle, end)]
                continue
            name = f"query-{number + 1}-from-{_spell(query.since + begin * query.step)}.json"
            (folder / name).write_bytes(body)
            progress(number * points + end, len(query.queries) * points)


def _answer(query: RangeQuery, text: str, begin: int, end: int) -> bytes | None:
    """Return the answer of one slice; `None` if it is too much at once."""
    is_divisible = end - begin >= 2 * _FEWEST_POINTS
    fields = {
        "query": text,
        "start": _spell(query.since + begin * query.step),
        "end": _spell(query.since + (end - 1) * query.step),
        "step": _spell(query.step),
    }
    try:
        response = query.server.ask("/api/v1/query_range", fields, _LIMITS)
    except HttpError as error:
        if error.status is not None and 200 <= error.status < 300 and is_divisible:
            return None
        raise MetricsError(query.server.shown, error.problem) from None
    if response.status in _TOO_MUCH and is_divisible:
        return None
    if not response.is_success:
        raise MetricsError(query.server.shown, _refusal(response))
    if not response.body.lstrip().startswith(b"{"):
        raise MetricsError(query.server.shown, "did not answer as Prometheus does; check the URL")
    return response.body


def _refusal(response: Response) -> str:
    try:
        answer = loads(response.body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        said = f"answered with status {response.status}: {quote(answer['error'], 200)}"
        return f"{said}; correct {option_of('query')} or {option_of('step')}"
    return f"answered with status {response.status}; check the URL"


def _spell(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
