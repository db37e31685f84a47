"""A REST API: requests with a token, sent again where that helps, and errors in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from json import dumps
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from msgspec import Struct

from quotaform.http.client import DEFAULT_LIMITS, Retry, Timeouts, asked_wait, is_rate_limited, send, send_again
from quotaform.http.message import MIB, HttpRequest, Response, Url
from quotaform.model.errors import HttpError
from quotaform.model.text import Secret, inert

PAGE_LIMIT: Final = 32 * MIB
"""The most bytes of one page of a list: 100 comments of GitHub, or 20 notes of GitLab, each as long as it may be."""
_MOST_PAGES: Final = 500
_NEXT: Final = regex(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?')


class Transport(Struct, frozen=True, kw_only=True):
    """How requests are sent."""

    retry: Retry
    limits: Timeouts = DEFAULT_LIMITS
    ca_file: Path | None = None  # the certificates that are trusted, in PEM; `None` for those of the system

    def send(self, request: HttpRequest) -> Response:
        """Send a request until there is an answer that would stay the same."""
        return send_again(request, lambda sent: send(sent, self.limits, self.ca_file), self.retry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A REST API that takes and returns JSON."""

    base: Url
    token: Secret = field(repr=False)  # what shows who asks; it is replaced where a server repeats it in a message
    credentials: Mapping[str, Secret]
    headers: Mapping[str, str]
    transport: Transport
    remedies: Mapping[int, str]  # status to what to do about it

    def get(self, path: str) -> Any:
        """Return what is at a path."""
        return self._send(self._request("GET", self.base.under(path))).json()

    def write(self, method: str, path: str, content: object) -> Any:
        """Send JSON to a path and return the answer.

        `PATCH` sets what it names to given values, so that it may be sent twice.
        """
        request = replace(
            self._request(method, self.base.under(path)),
            headers={**self.headers, "Content-Type": "application/json"},
            body=dumps(content).encode(),
            is_repeatable=method == "PATCH",
        )
        return self._send(request).json()

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page by page, as the `Link` header leads (RFC 8288).

        Raises `HttpError` if a page cannot be had, is no list, or the next one is on another server.
        """
        url: Url | None = self.base.under(path)
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            response = self._send(replace(self._request("GET", url), body_limit=PAGE_LIMIT))
            items = response.json()
            if not isinstance(items, list):
                raise self.malformed()
            yield from items
            url = None
            if found := _NEXT.search(response.headers.get("link", "")):
                try:
                    url = response.url.follow(found[1])
                except ValueError:
                    raise self.malformed() from None
                if url.origin != self.base.origin:
                    problem = f"says that the list goes on at {url.origin}, which is not followed; check the URL"
                    raise HttpError(self.base.origin, problem)
        if url is not None:
            raise HttpError(self.base.origin, f"lists more than {_MOST_PAGES} pages")

    def malformed(self) -> HttpError:
        """Return the error for an answer that has not the expected shape."""
        return HttpError(self.base.origin, "answered with JSON of an unexpected shape; check the URL of the API")

    def _request(self, method: str, url: Url) -> HttpRequest:
        return HttpRequest(method=method, url=url, headers=self.headers, credentials=self.credentials)

    def _send(self, request: HttpRequest) -> Response:
        response = self.transport.send(request)
        if not response.is_success:
            raise self._error(response)
        return response

    def _error(self, response: Response) -> HttpError:
        status = response.status
        now = self.transport.retry.clock.now()
        wait = asked_wait(response, now)
        if is_rate_limited(response):
            when = now + timedelta(seconds=min(wait or 0.0, 10**8))
            problem = (
                f"limits how often the token may ask (status {status}); try again after {when:%Y-%m-%d %H:%M:%S} UTC"
            )
        elif status >= 500:
            problem = f"failed (status {status}); try again later"
        else:
            # A message of the server is text from outside, and may repeat the token.
            content = None
            with suppress(HttpError):
                content = response.json()
            message = content.get("message") or content.get("error") if isinstance(content, dict) else None
            said = message.replace(self.token.reveal(), "***")[:200] if isinstance(message, str) else ""
            problem = f"refused this with status {status}" + (f" ({inert(said)})" if said else "")
            problem += f"; {self.remedies[status]}" if status in self.remedies else ""
        return HttpError(self.base.origin, problem, status=status, retry_after=wait)
