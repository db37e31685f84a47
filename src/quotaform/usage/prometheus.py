"""A Prometheus: how to log in to it, and the answers to range queries that an ingest reads.

Prometheus refuses more than 11,000 points per series, and an answer has to fit into memory here, so that slices are
short; one whose answer is too large, or too much for the server, is asked for in two halves.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from json import loads
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from quotaform.http.client import HttpRequest, Response, Transport, Url
from quotaform.model.errors import ArgumentError, HttpError, MetricsError, UsageError
from quotaform.model.text import Secret, option_of, quote
from quotaform.model.variable import OwnSecret
from quotaform.usage.metric_name import METRICS, type_pattern

BODY_LIMIT: Final = 64 << 20
"""The most bytes of an answer: 10,000 buckets have some 5 MB."""

ATTRIBUTES: Final = (*dict.fromkeys(metrics.rate for metrics in METRICS.values()), "throttle-time")
"""The attributes of the MBeans of client quotas that are recorded."""

QUERY: Final = (
    f"(?i:kafka_(server|broker|clients?|users?|quotas?)_.*({'|'.join(ATTRIBUTES).replace('-', '_?')}).*|"
    f"kafka_server_(quotas?|{'|'.join(type_pattern(metrics.mbean) for metrics in METRICS.values())})|kafka_server)"
)
"""The names of metrics of client quotas, whatever the rules of an exporter make of them, as a regular expression."""


# How to log in to a Prometheus is in variables alone: what stands on a command line is seen by others.

_TOKEN: Final = OwnSecret.PROMETHEUS_TOKEN
_USER: Final = OwnSecret.PROMETHEUS_USER
_PASSWORD: Final = OwnSecret.PROMETHEUS_PASSWORD
_TENANT: Final = OwnSecret.PROMETHEUS_TENANT


class Prometheus(Struct, frozen=True):
    """A Prometheus, and what is sent to it with each request."""

    url: Url  # Its URL, without `/api`
    credentials: Mapping[str, Secret]  # Headers that are secret
    headers: Mapping[str, str]  # Headers that are not secret

    @classmethod
    def at(cls, address: str, environment: Mapping[str, str]) -> Self:
        """Return the one at a URL, with the bearer token, or the user and the password, and the tenant of variables.

        Raises `UsageError` if the URL is invalid, or the variables contradict each other, or one is missing.
        """
        try:
            url = Url.parse(address)
        except ValueError as error:
            raise ArgumentError("{prometheus}: invalid URL: {}", error) from None
        token, user, password, tenant = map(environment.get, (_TOKEN, _USER, _PASSWORD, _TENANT))
        if token and user:
            raise UsageError(f"{_TOKEN} and {_USER} are both set; unset one of them")
        if bool(user) != bool(password):
            raise UsageError(f"{_USER} and {_PASSWORD} are used together; set both, or none of them")
        if user and ":" in user:
            raise UsageError(f"{_USER} contains a colon, which a user cannot have over HTTP")
        if tenant and not (tenant.isascii() and tenant.isprintable()):
            raise UsageError(f"{_TENANT} contains a character that a header cannot have")
        login = "Basic " + b64encode(f"{user}:{password}".encode()).decode() if user else ""
        login = f"Bearer {token}" if token else login
        credentials = {"Authorization": Secret(login)} if login else {}
        # What Mimir, Cortex and Thanos read.
        return cls(url, credentials, dict.fromkeys(("X-Scope-OrgID", "THANOS-TENANT"), tenant) if tenant else {})

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return f"Prometheus at {self.url.origin}"

    def ask(self, path: str, fields: Mapping[str, str], transport: Transport) -> Response:
        """Return an answer, whatever its status. Raises `HttpError`, and `MetricsError` if it wants another login."""
        url, secrets = self.url.under(path).with_query(fields), self.credentials
        request = HttpRequest(method="GET", url=url, headers=self.headers, credentials=secrets, body_limit=BODY_LIMIT)
        response = transport.send_once(request)
        if response.status in (401, 403):
            remedy = f"give a token in {_TOKEN}, or {_USER} and {_PASSWORD}"
            raise MetricsError(self.shown, f"refused this with status {response.status}; {remedy}")
        return response


_POINTS: Final = 360
"""The points per series of a slice, at first; 10,000 series have some 90 MB then."""
_FEWEST_POINTS: Final = 2
_TOO_MUCH: Final = frozenset({413, 422, 500, 503, 504})
"""The statuses of a query that loads too many samples, or takes too long."""


def save_answers(
    server: Prometheus,
    queries: Sequence[str],
    folder: Path,
    progress: Callable[[int, int], None],
    *,
    since: float,
    until: float,
    step: float,
) -> None:
    """Write the answers to queries in PromQL to a folder, a file per query and slice; of all metrics without queries.

    `progress`: called with how many points per series are there, and how many there will be. `since`, `until`: the
    first time and the last one, in seconds since the epoch; points are at multiples of `step`. Raises `UsageError` if
    the step is shorter than a second, and `MetricsError` if there is no answer that can be used.
    """
    if step < 1:
        raise ArgumentError("{step}: must be 1s or longer")
    # Another ingest asks for the same times.
    first = -(-since // step) * step
    points = max(0, int((until - first) // step)) + 1
    queries = queries or (f'{{__name__=~"{QUERY}"}}',)
    for number, text in enumerate(queries):
        slices = [(begin, min(begin + _POINTS, points)) for begin in range(0, points, _POINTS)]
        while slices:
            begin, end = slices.pop(0)
            start, last = (_spell(first + place * step) for place in (begin, end - 1))
            fields = {"query": text, "start": start, "end": last, "step": _spell(step)}
            body = _answer(server, fields, is_divisible=end - begin >= 2 * _FEWEST_POINTS)
            if body is None:
                middle = (begin + end) // 2
                slices[:0] = [(begin, middle), (middle, end)]
                continue
            (folder / f"query-{number + 1}-from-{start}.json").write_bytes(body)
            progress(number * points + end, len(queries) * points)


def _answer(server: Prometheus, fields: Mapping[str, str], *, is_divisible: bool) -> bytes | None:
    """Return the answer to a query; `None` if it is too much at once, and can be asked for in parts."""
    try:
        response = server.ask("/api/v1/query_range", fields, Transport(total=120.0))
    except HttpError as error:
        if error.status is not None and 200 <= error.status < 300 and is_divisible:
            return None
        raise MetricsError(server.shown, error.problem) from None
    if response.status in _TOO_MUCH and is_divisible:
        return None
    if not response.is_success:
        said = f"answered with status {response.status}"
        # Unless something else answers than a Prometheus.
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            said += f": {quote(str(loads(response.body)['error']), 200)}"
        remedy = f"check the URL, {option_of('query')} and {option_of('step')}"
        raise MetricsError(server.shown, f"{said}; {remedy}")
    if not response.body.lstrip().startswith(b"{"):
        raise MetricsError(server.shown, "did not answer as Prometheus does; check the URL")
    return response.body


def _spell(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
