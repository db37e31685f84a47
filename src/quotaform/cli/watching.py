"""`quotaform drift --watch`: the process that goes on."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, NoReturn

from quotaform.cli.console import Console
from quotaform.cli.usage import cut_lines
from quotaform.errors import QuotaformError

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.option.alerting import Alerting
    from quotaform.cli.option.cluster import ManyClusters
    from quotaform.cli.option.watching import Watching


def watch_drift(
    request: PlanRequest, target: ManyClusters, alerting: Alerting, watching: Watching, console: Console
) -> NoReturn:
    """Compare clusters until a signal comes.

    Raises:
        QuotaformError: Nothing can listen where it should.
        KeyboardInterrupt: A signal came.
    """
    from quotaform.app.clock import SYSTEM_CLOCK, timestamp
    from quotaform.app.drift.watch import Watch
    from quotaform.app.drift.watched_files import WatchedFiles
    from quotaform.app.repository.gateway import open_gateway
    from quotaform.notify.metrics_server import MetricsServer
    from quotaform.views.drift.log_text import event_text, warning_text

    def log(line: str) -> None:
        console.write_stderr(f"{timestamp(SYSTEM_CLOCK)} {cut_lines(line)}\n")

    interval, address = watching.interval(), watching.address()
    names = [cluster.name for cluster in request.clusters]
    watch = Watch(
        files=WatchedFiles(request, lambda config: target.choose(request.repository, config)),
        reporter=alerting.reporter(names, lambda warning: log(f"Warning: {warning_text(warning)}"), is_watch=True),
        connect=open_gateway,
        clock=SYSTEM_CLOCK,
        interval=interval,
        jitter=SystemRandom().random,
        log=lambda event: log(event_text(event)),
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
