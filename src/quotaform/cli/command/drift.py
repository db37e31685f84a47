"""`quotaform drift`: see whether somebody changed the cluster behind git's back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from glob import escape, glob
from os import environ
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final, NoReturn

from quotaform.cli.console import Console, cut_lines
from quotaform.cli.option.cluster import OR_SNAPSHOT, Clusters, Selecting, make_request
from quotaform.cli.option.common import DIRECTORY, flag, option, read_moment, read_seconds
from quotaform.cli.option.run import REPORT_OUT, SPARK, Engine, Output, out_option, printed
from quotaform.cli.present import PLACEHOLDER, Results, cluster_path, cluster_paths
from quotaform.model.errors import QuotaformError, UsageError, as_usage_error
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.server import Server, parse_server
from quotaform.model.text import Secret, inert
from quotaform.model.variable import OwnSecret
from quotaform.system.clock import SYSTEM_CLOCK, timestamp

if TYPE_CHECKING:
    from quotaform.drift.alert import DriftReporter, Receiver
    from quotaform.plan.run import PlanRequest


_URL: Final = OwnSecret.NOTIFY_URL
_KEY: Final = OwnSecret.NOTIFY_SECRET
_SUFFIX: Final = ".prom"


@dataclass(frozen=True, kw_only=True)
class Alerting:
    """Metrics and notifications."""

    metrics: str | None = option(
        "--metrics PATH",
        "Write Prometheus metrics to a file for node_exporter's textfile collector, whose name ends with "
        ".prom; with {cluster} in it, to one file for each cluster.",
    )
    notify: list[str] | None = option(
        "--notify [slack=]URL",
        "Post a notification to a webhook when drift is found, changes or is resolved; slack= for Slack and "
        f"compatible ones. Repeatable; the variable {_URL} does the same and keeps the URL secret.",
    )
    notify_state: Path | None = option(
        "--notify-state PATH",
        "File that keeps what was notified, so that the same drift is notified once and its resolution, too.",
    )
    notify_failures: bool = flag(
        "--notify-failures", "Also notify when a cluster cannot be compared, once until it can."
    )

    def is_used(self) -> bool:
        """Whether any of it is asked for."""
        return bool(self.metrics or self.notify_state or self.notify_failures or self._receivers())

    def reporter(self, clusters: Sequence[str], warn: Callable[[str], None]) -> DriftReporter:
        """Return what writes metrics and notifies."""
        from quotaform.apply.audit import read_run
        from quotaform.drift.alert import DriftReporter
        from quotaform.drift.metric import MetricStore

        if self.metrics is not None and not self.metrics.endswith(_SUFFIX):
            raise UsageError(
                f"--metrics {inert(self.metrics)}: node_exporter reads only files whose name ends with {_SUFFIX}; "
                f"write for example --metrics quotaform{_SUFFIX}"
            )
        if self.metrics is not None and PLACEHOLDER in self.metrics:
            cluster_paths("--metrics", self.metrics, clusters)
        receivers = self._receivers()
        if (self.notify_failures or self.notify_state) and not (receivers or self.metrics):
            option = "--notify-state" if self.notify_state else "--notify-failures"
            raise UsageError(f"{option} has no effect without --notify; give --notify URL, or set {_URL}")
        key, run = environ.get(_KEY), read_run()
        if key == "":
            raise UsageError(f"{_KEY} is empty; set it to the key that the receiver has, or unset it")

        def metric_path(cluster: str) -> Path | None:
            return None if self.metrics is None else cluster_path(self.metrics, cluster)

        return DriftReporter(
            metrics=MetricStore(metric_path, warn),
            receivers=receivers,
            state_path=self.notify_state,
            notifies_failures=self.notify_failures,
            key=None if key is None else Secret(key),
            run=None if run is None else run.url,
            clock=SYSTEM_CLOCK,
            warn=warn,
        )

    def report_failed(
        self,
        error: QuotaformError,
        reporter: DriftReporter | None,
        target: Clusters,
        names: Sequence[str],
        seconds: float,
        warn: Callable[[str], None],
    ) -> None:
        """Write metrics and notify, so that the last result does not stand as if the check still succeeded.

        Without a reporter quotaform.yaml could not be used, so the clusters are those that `--cluster` names, and those
        that the files of `--metrics` and `--notify-state` know.
        """
        try:
            if reporter is None:
                if not self.is_used():
                    return
                reporter = self.reporter(names, warn)
                pattern = "*".join(escape(part) for part in (self.metrics or "").split(PLACEHOLDER))
                files = [Path(name) for name in sorted(glob(pattern))]  # noqa: PTH207 (an absolute path, too)
                names = sorted({*names, *reporter.clusters_known(files, target.cluster or ())})
            reporter.report([ClusterOutcome(name, error=error) for name in names], seconds)
            if not names:
                warn(
                    "the failure of this check is in no metric and no notification, because it is not known which "
                    "clusters it was about; name them with --cluster"
                )
        except QuotaformError as problem:
            # What failed first is what matters.
            warn(f"the failure of this check is not reported: {problem}")

    def _receivers(self) -> tuple[Receiver, ...]:
        given = [("--notify", text) for text in self.notify or ()]
        given += [(_URL, text) for text in environ.get(_URL, "").split()]
        if not given:
            return ()
        from quotaform.drift.alert import Receiver

        receivers = {}
        for source, text in given:
            # Not shown: it may hold a token.
            with as_usage_error(f"{source} is not the URL of a webhook: "):
                receiver = Receiver.parse(text)
            receivers[receiver.id] = receiver
        return tuple(receivers.values())


DEFAULT_LISTEN: Final = "127.0.0.1:9464"


def _read_listen(text: str) -> Server:
    try:
        return parse_server(text)
    except ValueError:
        raise ValueError(f"{inert(text)} is not host:port; write for example {DEFAULT_LISTEN}") from None


def drift(
    *,
    directory: Path | None = DIRECTORY,
    target: Clusters = OR_SNAPSHOT,
    selecting: Selecting,
    baseline: str | None = option(
        "--baseline REF|RECEIPT",
        "What was last applied: a git revision, or a receipt (.json). What the files have changed since is "
        "pending and no drift.",
    ),
    against: datetime | None = option(
        "--against TIME",
        "Compare with a history at this time instead of the files: ISO 8601 (UTC), a day, or an age such as "
        "7d. Needs --history.",
        read=read_moment,
    ),
    history: str | None = option("--history DIR|delta:PATH|table:NAME", "The history that --against is about."),
    out: list[str] | None = out_option("drift"),
    report: list[str] | None = REPORT_OUT,
    alerting: Alerting,
    watch: float | None = option(
        "--watch INTERVAL",
        "Go on and compare every INTERVAL (30s, 5m, 1h); log changes to stderr, and serve /metrics and /healthz. "
        "Changed files are read again.",
        read=read_seconds,
    ),
    listen: Server | None = option(
        "--listen HOST:PORT",
        f"Where --watch serves /metrics and /healthz. [default: {DEFAULT_LISTEN}]",
        read=_read_listen,
    ),
    engine: Engine,
    exit_zero: bool = flag("--exit-zero", "Exit 0 even if drift is found."),
    output: Output = printed("drift"),
) -> int:
    """Compare clusters with what was last agreed, read-only. Exit 2 if they differ.

    Drift is modified (other values), missing (declared but not live) or unexpected (live but not declared).
    With --baseline, what git has changed since then and nobody has applied is pending, not drift. What drift_ignore of
    quotaform.yaml lists is shown and not counted.

    \b
    Examples:
      quotaform drift
      quotaform drift --baseline origin/main --out json=drift.json
      quotaform drift --all --report json=fleet.json --format report
      quotaform drift --all --metrics /var/lib/node_exporter/quotaform.prom
      quotaform drift --all --watch 5m --listen 0.0.0.0:9464
      quotaform drift --all --against 7d --history /srv/quota-history
      quotaform drift --notify slack=https://hooks.slack.com/... --notify-state drift-state.json
    """
    from quotaform.api import compare_clusters
    from quotaform.plan.base import choose_base

    console = output.console
    if (engine.is_given or against is not None) and alerting.is_used():
        raise UsageError(
            "metrics and notifications are made by one process, of the files; leave out --engine, --master, --remote, "
            "--spark-conf and --against"
        )
    past = None
    if against is not None and history is not None:
        if engine.engine not in (None, SPARK):
            raise UsageError("a history is read on Spark; leave --engine out")
        engine.installed()
        from quotaform.history.drift import Past
        from quotaform.history.table import require_history

        require_history(history, is_read=True)
        past, engine = Past(history, against), replace(engine, engine=SPARK)
    agreed = None if baseline is None else choose_base(baseline, "baseline")
    started = SYSTEM_CLOCK.monotonic()
    repository = target.repository(directory)
    results = Results(output, repository=repository, out=out, report=report)
    names: Sequence[str] = target.literal_names
    reporter = None
    try:
        with results.covering(names, has_files=True):
            request = make_request(target, repository, selecting, base=agreed, prune="report", is_guarded=False)
        names = [cluster.name for cluster in request.clusters]
        if watch is not None:
            watch_drift(request, target, alerting, watch, listen or parse_server(DEFAULT_LISTEN), console)
        if alerting.is_used():
            if selecting != Selecting():
                raise UsageError(
                    "metrics and notifications are about whole clusters; leave out --select and --exclude, or use "
                    "drift_ignore in quotaform.yaml"
                )
            reporter = alerting.reporter(names, console.warn_of_failure)
        results.open(names)
        with results.covering(names, has_files=True):
            session, progress = engine.start(console, "Comparing", len(names), repository.quota_bytes)
            drifts = compare_clusters(request, past, engine=session, progress=progress)
            outcomes = results.gather(drifts, names)
    except QuotaformError as error:
        # Wrong usage is not reported: it concerns the command line alone.
        if watch is None and selecting == Selecting() and not isinstance(error, UsageError):
            seconds = SYSTEM_CLOCK.monotonic() - started
            alerting.report_failed(error, reporter, target, names, seconds, console.warn_of_failure)
        raise
    seconds = SYSTEM_CLOCK.monotonic() - started
    try:
        results.present(outcomes, request)
    finally:
        if reporter is not None:
            only = list(request.config.clusters) if target.all_clusters and results.interrupt is None else None
            reporter.report(outcomes, seconds, only=only)
    return results.exit_code(outcomes, counts_differences=not exit_zero)


def watch_drift(
    request: PlanRequest, target: Clusters, alerting: Alerting, interval: float, address: Server, console: Console
) -> NoReturn:
    """Compare clusters until a signal comes."""
    from quotaform.drift.metric import MetricsServer
    from quotaform.drift.watch import Watch
    from quotaform.repository.gateway import open_gateway

    def log(line: str) -> None:
        console.write_stderr(f"{timestamp(SYSTEM_CLOCK)} {cut_lines(line)}\n")

    names = [cluster.name for cluster in request.clusters]
    watch = Watch(
        request=request,
        choose=lambda config: target.choose(request.repository, config),
        reporter=alerting.reporter(names, lambda warning: log(f"Warning: {warning}")),
        connect=open_gateway,
        clock=SYSTEM_CLOCK,
        interval=interval,
        jitter=SystemRandom().random,
        log=log,
        is_alone=target.all_clusters,
    )
    try:
        server = MetricsServer(address.host, address.port, lambda: watch.reporter.metrics.samples, watch.health)
    except OSError as error:
        raise QuotaformError(
            f"nothing can listen at {address}: {error.strerror or error}; give another address with --listen"
        ) from error
    server.start()
    if not console.is_quiet:
        log(f"Watching {len(names)} cluster{'s' * (len(names) != 1)}; metrics at http://{address}/metrics")
    watch.run()
