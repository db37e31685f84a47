"""Sources that are asked over HTTP: the pages of exporters."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from quotaform.core.usage.format.exposition import parse_exposition
from quotaform.core.usage.metric.origin import Origin
from quotaform.errors import HttpError, MetricsError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Response, Url
from quotaform.metrics.reading import BODY_LIMIT, Reading, read_items

_HTML: Final = ("<!doctype", "<html")


@dataclass(frozen=True, slots=True)
class WebReader:
    """Reads a source over HTTP.

    Attributes:
        request: What is sent each time.
        origin: What is known about the broker.
    """

    request: Request
    origin: Origin

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return self.request.url.origin

    def read(self, timeout: float) -> Reading:
        """Ask once; see `quotaform.metrics.reading.Reader`."""
        at, started = time(), monotonic()
        try:
            response = send(self.request, Limits(connect=timeout, total=timeout))
        except HttpError as error:
            remedy = (
                "; check that it is the port of an exporter of Prometheus" if error.problem.startswith("closed") else ""
            )
            raise MetricsError(self.shown, error.problem + remedy) from None
        seconds = monotonic() - started
        self._require_metrics(response)
        items = read_items(parse_exposition(response.body, self.origin, at), self.shown, timeout, started)
        return Reading(at, seconds, len(response.body), items)

    def cancel(self) -> None:
        """Do nothing: a request has no process, and ends with this one."""

    def _require_metrics(self, response: Response) -> None:
        if not response.is_success:
            remedy = "check the path of the URL" if response.status in (404, 405) else "check the URL and the server"
            raise MetricsError(self.shown, f"answered with status {response.status}; {remedy}")
        if response.body[:200].lstrip().lower().decode(errors="replace").startswith(_HTML):
            raise MetricsError(
                self.shown, "answered with a web page, not as an exporter of Prometheus does; check the URL"
            )


def exporter_reader(url: Url, origin: Origin) -> WebReader:
    """Return what reads the page of a jmx_exporter."""
    request = Request(
        method="GET", url=url, headers={"Accept": "text/plain;version=0.0.4, text/plain"}, body_limit=BODY_LIMIT
    )
    return WebReader(request, origin)
