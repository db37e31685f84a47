"""The options of reading what a Prometheus has recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.metrics.prometheus_range import RangeQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusRange:
    """A Prometheus, and what is asked of it."""

    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Prometheus to query instead of SOURCE; QUOTAFORM_PROMETHEUS_TOKEN holds its bearer token.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="With --prometheus: start time: ISO 8601, a date, or an age such as 7d."
        ),
    ] = None
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="With --prometheus: end time.")] = "now"
    step: Annotated[
        str, typer.Option("--step", metavar="DURATION", help="With --prometheus: time between two samples.")
    ] = "60s"
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="PROMQL",
            help="With --prometheus: series to query. Repeatable. [default: all metrics of client quotas]",
        ),
    ] = None

    def range_query(self, *, has_others: bool) -> RangeQuery | None:
        """Return what is asked of a Prometheus; `None` if it is not meant.

        Args:
            has_others: Whether there is another source.

        Raises:
            UsageError: A value cannot be used, or one is missing.
        """
        if self.prometheus is None:
            if self.since is not None or self.query:
                raise UsageError("--since and --query are for a Prometheus; give --prometheus URL")
            return None
        if has_others:
            raise UsageError("--prometheus takes the place of SOURCE and --topic; leave them out")
        if self.since is None:
            raise UsageError("--prometheus requires --since, for example --since 7d")
        return self._read(self.prometheus, self.since)

    def _read(self, address: str, since: str) -> RangeQuery:
        from os import environ

        from quotaform.cli.option.metrics import read_seconds
        from quotaform.cli.option.moment import read_moment_option
        from quotaform.http.message import Url
        from quotaform.metrics.prometheus_login import PrometheusLogin
        from quotaform.metrics.prometheus_range import DEFAULT_QUERY, RangeQuery

        try:
            url = Url.parse(address)
        except ValueError as error:
            raise UsageError(f"--prometheus: invalid URL: {error}") from None
        first, last = read_moment_option("--since", since), read_moment_option("--until", self.until)
        if not first < last:
            raise UsageError("--since must be before --until")
        step = read_seconds("--step", self.step)
        if step < 1:
            raise UsageError("--step: it is 1s at least")
        # Multiples of the step, so that another ingest asks for the same times.
        begin = -(-first.timestamp() // step) * step
        return RangeQuery(
            url=url,
            queries=tuple(self.query or (DEFAULT_QUERY,)),
            since=begin,
            until=max(begin, last.timestamp()),
            step=step,
            login=PrometheusLogin.from_environment(environ),
        )
