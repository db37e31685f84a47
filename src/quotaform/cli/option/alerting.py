"""The options that say who hears of drift, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape, glob
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.cluster_path import PLACEHOLDER, cluster_paths, file_name
from quotaform.cli.usage import shorten
from quotaform.errors import UsageError
from quotaform.model.variable import OwnSecret

if TYPE_CHECKING:
    from quotaform.app.drift.report import DriftReporter
    from quotaform.core.drift.log_event import Warn
    from quotaform.model.secret import Secret
    from quotaform.notify.webhook import Receiver

_URL: Final = OwnSecret.NOTIFY_URL
_KEY: Final = OwnSecret.NOTIFY_SECRET
_SUFFIX: Final = ".prom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """Metrics and notifications."""

    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="PATH",
            help="Write Prometheus metrics to a file for node_exporter's textfile collector, whose name ends with "
            ".prom; with {cluster} in it, to one file for each cluster.",
        ),
    ] = None
    notify: Annotated[
        list[str] | None,
        typer.Option(
            "--notify",
            metavar="[slack=]URL",
            help="Post a notification to a webhook when drift is found, changes or is resolved; slack= for Slack and "
            f"compatible ones. Repeatable; the variable {_URL} does the same and keeps the URL secret.",
        ),
    ] = None
    notify_state: Annotated[
        Path | None,
        typer.Option(
            "--notify-state",
            metavar="PATH",
            help="File that keeps what was notified, so that the same drift is notified once and its resolution, too.",
        ),
    ] = None
    notify_failures: Annotated[
        bool,
        typer.Option("--notify-failures", help="Also notify when a cluster cannot be compared, once until it can."),
    ] = False

    def is_used(self) -> bool:
        """Whether any of it is asked for."""
        return bool(self.metrics or self.notify_state or self.notify_failures or self._receivers())

    def reporter(self, clusters: Sequence[str], warn: Warn, *, is_watch: bool = False) -> DriftReporter:
        """Return what writes metrics and notifies.

        Args:
            is_watch: Whether it is used again and again, so that metrics are written once for each round.
        """
        from quotaform.app.clock import SYSTEM_CLOCK
        from quotaform.app.drift.alert import AlertOptions, DriftAlerts
        from quotaform.app.drift.metrics_file import MetricStore
        from quotaform.app.drift.report import DriftReporter
        from quotaform.app.run import read_run

        self._require_metric_paths(clusters)
        receivers = self._receivers()
        if (self.notify_failures or self.notify_state) and not (receivers or self.metrics):
            option = "--notify-state" if self.notify_state else "--notify-failures"
            raise UsageError(f"{option} has no effect without --notify; give --notify URL, or set {_URL}")
        run = read_run()
        options = AlertOptions(
            receivers=receivers,
            state_path=self.notify_state,
            notifies_failures=self.notify_failures,
            key=_key(),
            run=None if run is None else run.url,
        )
        return DriftReporter(
            metrics=MetricStore(self._metric_path, warn, is_deferred=is_watch),
            alerts=DriftAlerts(options=options, clock=SYSTEM_CLOCK, warn=warn),
            clock=SYSTEM_CLOCK,
        )

    def metric_files(self) -> list[Path]:
        """Return the files of `--metrics` that earlier runs may have written."""
        if self.metrics is None:
            return []
        pattern = "*".join(escape(part) for part in self.metrics.split(PLACEHOLDER))
        return [Path(name) for name in sorted(glob(pattern))]  # noqa: PTH207 (an absolute path, too)

    def _require_metric_paths(self, clusters: Sequence[str]) -> None:
        """Make sure that the metrics of each cluster have a place.

        Raises `UsageError` if the collector would not read the file, or clusters would overwrite each other's.
        """
        if self.metrics is None:
            return
        if not self.metrics.endswith(_SUFFIX):
            raise UsageError(
                f"--metrics {shorten(self.metrics)}: node_exporter reads only files whose name ends with {_SUFFIX}; "
                f"write for example --metrics quotaform{_SUFFIX}"
            )
        if PLACEHOLDER in self.metrics:
            cluster_paths("--metrics", self.metrics, clusters, example="")

    def _metric_path(self, cluster: str) -> Path | None:
        """Return where the metrics of a cluster go."""
        return None if self.metrics is None else Path(self.metrics.replace(PLACEHOLDER, file_name(cluster)))

    def _receivers(self) -> tuple[Receiver, ...]:
        given = [("--notify", text) for text in self.notify or ()]
        given += [(_URL, text) for text in environ.get(_URL, "").split()]
        if not given:
            return ()
        from quotaform.notify.webhook import Receiver

        receivers = {}
        for source, text in given:
            try:
                receiver = Receiver.parse(text)
            except ValueError as error:
                # Not shown: it may hold a token.
                raise UsageError(f"{source} is not the URL of a webhook: {error}") from None
            receivers[receiver.id] = receiver
        return tuple(receivers.values())


def _key() -> Secret | None:
    from quotaform.model.secret import Secret

    text = environ.get(_KEY)
    if text is None:
        return None
    if not text:
        raise UsageError(f"{_KEY} is empty; set it to the key that the receiver has, or unset it")
    return Secret(text)
