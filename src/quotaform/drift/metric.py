"""The metrics of comparisons: what one run says of a cluster, in files for Prometheus' textfile collector and served.

No metric has a user, a client-id or an address as a label: their number is not bounded. A registry of its own holds
these metrics and no others: nothing about the process, which would change with every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from json import dumps
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Final, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from msgspec import Struct, field
from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from quotaform import __version__
from quotaform.drift.drift import Drift
from quotaform.model.errors import FileReadError
from quotaform.model.quotas import Action
from quotaform.model.text import MIB
from quotaform.system.files import read_text, update_lock, write_atomically, writing

COMMAND: Final = "drift"
"""What runs are called in labels."""


_OF_CLUSTER: Final = {
    "drift_entities": ("Entities that differ from what was last agreed, by class.", "class"),
    "drift_ignored_entities": ("Entities with differences that drift_ignore lists; not counted as drift.",),
    "pending_changes": (
        "Entities that the files have changed since the baseline and that are not applied yet; absent without a "
        "baseline.",
        "action",
    ),
    "managed_entities": ("Entities for which the files declare values.",),
    "unmanaged_entities": ("Live entities that no file declares, in and out of scope.", "scope"),
    "drift_first_seen_timestamp_seconds": (
        "When drift was first seen since the cluster was last in sync; absent when it is in sync.",
    ),
}
"""What is said of a cluster when it was last read: what a gauge says, in one sentence, and its labels."""
_OF_RUN: Final = {
    "last_run_success": ("Whether the last run could compare the cluster: 1 or 0.", "command"),
    "last_success_timestamp_seconds": ("When the cluster was last compared.", "command"),
    "last_run_duration_seconds": ("How long the last run took.", "command"),
    "last_notify_success": (
        "Whether every notification that was due at the last run was delivered: 1 or 0; absent if nobody is notified.",
    ),
    "build_info": ("The version of quotaform; always 1.", "version"),
}
METRICS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    f"quotaform_{name}": (help, ("cluster", *labels)) for name, (help, *labels) in (_OF_CLUSTER | _OF_RUN).items()
}
"""All metrics by name, in the order in which they are written: what each says, and its labels, the cluster first."""

MetricSample: TypeAlias = tuple[str, tuple[str, ...]]
"""The name of a metric and the values of its labels, the cluster first."""
MetricSamples: TypeAlias = Mapping[MetricSample, float]


class RunFacts(Struct, frozen=True, kw_only=True):
    """One comparison of one cluster."""

    cluster: str
    version: str = __version__
    finished_at: float  # When it ended, in seconds since 1970
    duration: float  # How many seconds it took
    drift: Drift | None = None  # What was found; `None` when the cluster could not be compared
    first_seen: float | None = None  # Since when there has been drift, in seconds since 1970
    # Whether every notification that was due was delivered; `None` without any receiver
    is_notified: bool | None = None


def merge_run(before: MetricSamples, run: RunFacts) -> dict[MetricSample, float]:
    """Return the samples after a run: those of its cluster are replaced, the others stay.

    What was known of a cluster stays when it could not be compared; only what is about the run changes. `before` is the
    samples so far, of any clusters.
    """
    name, drift = run.cluster, run.drift

    def sample(metric: str, *labels: str) -> MetricSample:
        return f"quotaform_{metric}", (name, *labels)

    replaced = {f"quotaform_{metric}" for metric in _OF_CLUSTER if drift is not None}
    replaced |= {"quotaform_build_info", "quotaform_last_notify_success"}
    merged = {key: value for key, value in before.items() if key[1][0] != name or key[0] not in replaced}
    merged[sample("build_info", run.version)] = 1.0
    merged[sample("last_run_success", COMMAND)] = float(drift is not None)
    merged[sample("last_run_duration_seconds", COMMAND)] = round(run.duration, 6)
    if run.is_notified is not None:
        merged[sample("last_notify_success")] = float(run.is_notified)
    if drift is None:
        return merged
    summary = drift.summary
    merged |= {sample("drift_entities", each.value): count for each, count in summary.classes.items()}
    merged |= {
        sample("last_success_timestamp_seconds", COMMAND): run.finished_at,
        sample("drift_ignored_entities"): summary.ignored,
        sample("managed_entities"): drift.managed,
        sample("unmanaged_entities", "in"): drift.unmanaged_in_scope,
        sample("unmanaged_entities", "out"): drift.unmanaged_out_of_scope,
    }
    if drift.baseline.type != "none":
        actions = Counter(each.action for each in drift.pending)
        merged |= {sample("pending_changes", each.value): actions[each] for each in Action}
    if drift.entities and run.first_seen is not None:
        # What is in a file may be longer ago than what is remembered.
        first_seen = sample("drift_first_seen_timestamp_seconds")
        merged[first_seen] = min(before.get(first_seen, run.first_seen), run.first_seen)
    return merged


def keep_clusters(samples: MetricSamples, clusters: Iterable[str]) -> dict[MetricSample, float]:
    """Return the samples of some clusters."""
    kept = frozenset(clusters)
    return {key: value for key, value in samples.items() if key[1][0] in kept}


class _Samples(Collector):
    """Shows samples to `prometheus_client`."""

    def __init__(self, read: Callable[[], MetricSamples]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        samples = self._read()
        for name, (help, labels) in METRICS.items():
            family = GaugeMetricFamily(name, help, labels=labels)
            for (_, values), value in sorted(item for item in samples.items() if item[0][0] == name):
                family.add_metric(values, value)
            if family.samples:
                yield family


def metric_registry(read: Callable[[], MetricSamples]) -> CollectorRegistry:
    """Return what shows samples, which are read anew each time."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(read))
    return registry


def render_metrics(samples: MetricSamples) -> str:
    """Return samples as a file for the textfile collector: sorted, without times."""
    return generate_latest(metric_registry(lambda: samples)).decode()


MOST_SAMPLES: Final = 200_000
"""How many samples of an existing file are read: 1,000 clusters have some 20,000."""


def parse_metrics(text: str) -> dict[MetricSample, float]:
    """Return the samples of a file that `render_metrics` wrote; metrics that are not ours are left out.

    Raises `ValueError` if it is not in the text format, or has too many samples.
    """
    found: dict[MetricSample, float] = {}
    count = 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                count += 1
                if count > MOST_SAMPLES:
                    raise ValueError
                _, labels = METRICS.get(sample.name, ("", ()))
                if labels and sample.labels.keys() == set(labels):
                    found[sample.name, tuple(sample.labels[label] for label in labels)] = float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ValueError("it is not in the text format of Prometheus, or has too many samples") from None
    return found


_LIMIT: Final = 32 * MIB


class MetricStore(Struct):
    """The metrics of clusters; threads may share it, and processes its files."""

    path_of: Callable[[str], Path | None]  # The file of a cluster, which several may share; `None`: in memory only
    warn: Callable[[str], None]  # Called with what is wrong with a file that exists
    samples: dict[MetricSample, float] = field(default_factory=dict)
    only: Collection[str] | None = None  # All clusters that there are, if files are to hold no others
    _unwritten: list[RunFacts] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, runs: Iterable[RunFacts]) -> None:
        """Take up runs; `write` writes them."""
        with self._lock:
            for run in runs:
                self.samples = merge_run(self.samples, run)
                self._unwritten.append(run)

    def write(self) -> None:
        """Write the files of the clusters that runs were taken up of since the last time.

        What a file says of other clusters stays, and of a cluster that could not be compared, too. Raises
        `QuotaformError` if a file cannot be written.
        """
        with self._lock:
            files: dict[Path, list[RunFacts]] = {}
            for run in self._unwritten:
                path = self.path_of(run.cluster)
                if path is not None:
                    files.setdefault(path, []).append(run)
            self._unwritten = []
            for path, runs in files.items():
                self._update(path, runs)

    def clusters_in(self, paths: Iterable[Path]) -> frozenset[str]:
        """Return the clusters whose metrics stand in some files; a file that cannot be used has none."""
        found: set[str] = set()
        for path in paths:
            try:
                names = {labels[0] for _, labels in parse_metrics(read_text(path, _LIMIT))}
            except (FileReadError, ValueError):
                continue
            # A folder of node_exporter has files of other jobs, too.
            found |= {name for name in names if self.path_of(name) == path}
        return frozenset(found)

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some; files stay as they are."""
        with self._lock:
            self.samples = keep_clusters(self.samples, clusters)

    def _update(self, path: Path, runs: Iterable[RunFacts]) -> None:
        with update_lock(path) as unlocked:
            if unlocked is not None:
                self.warn(unlocked)
            samples: dict[MetricSample, float] = {}
            try:
                samples = parse_metrics(read_text(path, _LIMIT))
            except FileReadError as error:
                if not error.is_missing:
                    self.warn(f"{path} cannot be read: {error.reason}; earlier metrics in it are lost")
            except ValueError as error:
                self.warn(f"{path} cannot be used: {error}; earlier metrics in it are lost")
            for run in runs:
                samples = merge_run(samples, run)
            if self.only is not None:
                samples = keep_clusters(samples, self.only)
            with writing(path):
                write_atomically(path, render_metrics(samples))


# `/metrics` and `/healthz` over HTTP, for a process that goes on.
#
# At most some connections are served at a time; when another one comes, the oldest is closed, so that clients that send
# slowly cannot keep Prometheus out.

AT_ONCE: Final = 16
"""How many connections are served at a time."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves metrics in threads that end with the process."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        read: Callable[[], MetricSamples],
        health: Callable[[], tuple[bool, dict[str, Any]]],
    ) -> None:
        """Begin to listen; port 0 is any. Raises `OSError` if nothing can listen there.

        `read` returns the metrics, for each request. `health` returns whether the process works, and what it says about
        itself.
        """
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self._open: dict[int, socket] = {}
        self._lock = Lock()
        super().__init__((host, port), _Handler)
        metrics = make_wsgi_app(metric_registry(read))

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ.get("REQUEST_METHOD") != "GET":
                return _text(start, "405 Method Not Allowed", "only GET\n", ("Allow", "GET"))
            path = environ.get("PATH_INFO")
            if path == "/metrics":
                answered: Iterable[bytes] = metrics(environ, start)
                return answered
            if path == "/healthz":
                is_alive, document = health()
                status = "200 OK" if is_alive else "503 Service Unavailable"
                return _text(start, status, dumps(document) + "\n", content_type="application/json")
            return _text(start, "404 Not Found", "there are /metrics and /healthz\n")

        self.set_app(answer)

    def start(self) -> None:
        """Begin to answer."""
        Thread(target=self.serve_forever, name="quotaform-metrics", daemon=True).start()

    def server_bind(self) -> None:
        """Bind without asking for the name of the host, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; the connection that is open longest is closed if there are too many."""
        with self._lock:
            oldest = next(iter(self._open), None) if len(self._open) >= AT_ONCE else None
            left = None if oldest is None else self._open.pop(oldest)
            self._open[id(request)] = request
        if left is not None:
            with suppress(OSError):  # It may be closed already.
                left.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # For how many seconds a connection may be silent

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: every scrape is one request."""


def _text(
    start: Callable[..., Any],
    status: str,
    text: str,
    *headers: tuple[str, str],
    content_type: str = "text/plain; charset=utf-8",
) -> list[bytes]:
    start(status, [("Content-Type", content_type), *headers])
    return [text.encode()]
