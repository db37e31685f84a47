"""The measurements of all brokers of a cluster at this moment, as a Prometheus has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from json import dumps
from time import monotonic, time
from typing import Final

from quotaform.core.usage.format.prometheus import parse_prometheus
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Item, Sample
from quotaform.errors import HttpError, MetricsError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Url
from quotaform.metrics.prometheus_login import GIVE, NO_LOGIN, PrometheusLogin
from quotaform.metrics.reading import BODY_LIMIT, Reading, read_items
from quotaform.model.text import quote

QUERY: Final = (
    "(?i:kafka_(server|broker|clients?|users?|quotas?)_.*(byte_?rate|request_?time|mutation_?rate|accept_?rate|"
    "throttle_?time).*|kafka_server_(quotas?|produce|fetch|request|controller_?mutation|socket_?server_?metrics)|"
    "kafka_server)"
)
"""The names of metrics of client quotas, whatever the rules of an exporter make of them, as a regular expression."""


_MOST_VALUES: Final = 4_000_000
"""The most values of an answer, of which all are read before the first is looked at; a sample has some ten."""


@dataclass(frozen=True, slots=True)
class PrometheusReader:
    """Asks a Prometheus for the last value of each series.

    Attributes:
        url: Its URL, without `/api`.
        labels: What labels of its series must be; without any, series with the label of another cluster are left out.
    """

    url: Url
    cluster: str
    labels: Mapping[str, str] = field(default_factory=dict)
    login: PrometheusLogin = NO_LOGIN

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return f"Prometheus at {self.url.origin}"

    def read(self, timeout: float) -> Reading:
        """Ask once; see `quotaform.metrics.reading.Reader`."""
        at, started = time(), monotonic()
        url = self.url.under("/api/v1/query").with_query({"query": self._query()})
        request = Request(
            method="GET",
            url=url,
            headers=self.login.headers,
            credentials=self.login.credentials,
            body_limit=BODY_LIMIT,
        )
        try:
            response = send(request, Limits(connect=timeout, total=timeout))
        except HttpError as error:
            raise MetricsError(self.shown, error.problem) from None
        if response.status in (401, 403):
            raise MetricsError(self.shown, f"refused this with status {response.status}; {GIVE}")
        if not response.is_success and response.status not in (400, 422, 503):
            raise MetricsError(self.shown, f"answered with status {response.status}; check the URL")
        origin = Origin(self.cluster, cluster_labels=()) if self.labels else Origin(self.cluster)
        if sum(map(response.body.count, (b"{", b"[", b","))) > _MOST_VALUES:
            problem = f"answered with more than {_MOST_VALUES:,} values; have it serve fewer metrics"
            raise MetricsError(self.shown, problem)
        items = read_items(parse_prometheus(response.body, origin, at), self.shown, timeout, started)
        return Reading(at, monotonic() - started, len(response.body), self._of_cluster(items))

    def cancel(self) -> None:
        """Do nothing: a request has no process, and ends with this one."""

    def _query(self) -> str:
        # JSON spells a text as PromQL does.
        matchers = "".join(f", {name}={dumps(value, ensure_ascii=False)}" for name, value in self.labels.items())
        return f'{{__name__=~"{QUERY}"{matchers}}}'

    def _of_cluster(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the items without the samples of other clusters."""
        others = {item.series.cluster for item in items if isinstance(item, Sample)} - {self.cluster}
        if not others:
            return items
        kept = tuple(item for item in items if not isinstance(item, Sample) or item.series.cluster == self.cluster)
        if not any(isinstance(item, Sample) for item in kept):
            names = ", ".join(sorted(quote(name) for name in others if name is not None)[:5])
            raise MetricsError(
                self.shown,
                f"has series of the clusters {names} and none of {quote(self.cluster)}; choose with "
                "--label NAME=VALUE, or metrics.labels in quotaform.yaml",
            )
        return kept
