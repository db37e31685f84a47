"""What a Prometheus has recorded over a time, as files: one answer of a range query per slice of the time.

Prometheus refuses more than 11,000 points per series, and an answer has to fit into memory here, so that slices are
short; one whose answer is too large, or too much for the server, is asked for in two halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Final

from quotaform.errors import HttpError, MetricsError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Response, Url
from quotaform.metrics.prometheus import QUERY
from quotaform.metrics.prometheus_login import GIVE, NO_LOGIN, PrometheusLogin
from quotaform.metrics.reading import BODY_LIMIT
from quotaform.model.text import quote

DEFAULT_QUERY: Final = f'{{__name__=~"{QUERY}"}}'
"""All metrics of client quotas."""
_POINTS: Final = 360
"""The points per series of a slice, at first; 10,000 series have some 90 MB then."""
_FEWEST_POINTS: Final = 2
_LIMITS: Final = Limits(total=120.0)
_TOO_MUCH: Final = frozenset({413, 422, 500, 503, 504})
"""The statuses of a query that loads too many samples, or takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeQuery:
    """What is asked for.

    Attributes:
        url: The URL of the Prometheus, without `/api`.
        queries: What to ask, in PromQL.
        since: The first time, in seconds since the epoch.
        until: The last time.
        step: The seconds between two points.
    """

    url: Url
    queries: Sequence[str] = (DEFAULT_QUERY,)
    since: float
    until: float
    step: float
    login: PrometheusLogin = NO_LOGIN

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return f"Prometheus at {self.url.origin}"


def save_answers(query: RangeQuery, folder: Path, progress: Callable[[int, int], None]) -> None:
    """Write the answers to a folder, a file per query and slice.

    Args:
        progress: Called with how many points per series are there, and how many there will be.

    Raises:
        MetricsError: There is no answer that can be used.
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
    url = query.url.under("/api/v1/query_range").with_query(fields)
    request = Request(
        method="GET", url=url, headers=query.login.headers, credentials=query.login.credentials, body_limit=BODY_LIMIT
    )
    try:
        response = send(request, _LIMITS)
    except HttpError as error:
        if error.status is not None and 200 <= error.status < 300 and is_divisible:
            return None
        raise MetricsError(query.shown, error.problem) from None
    if response.status in _TOO_MUCH and is_divisible:
        return None
    if not response.is_success:
        raise MetricsError(query.shown, _refusal(response))
    if not response.body.lstrip().startswith(b"{"):
        raise MetricsError(query.shown, "did not answer as Prometheus does; check the URL")
    return response.body


def _refusal(response: Response) -> str:
    if response.status in (401, 403):
        return f"refused this with status {response.status}; {GIVE}"
    try:
        answer = loads(response.body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return f"answered with status {response.status}: {quote(answer['error'], 200)}; correct --query or --step"
    return f"answered with status {response.status}; check the URL"


def _spell(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
