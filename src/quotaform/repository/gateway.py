"""Opens clusters of a repository, a snapshot or the running one that quotaform.yaml pins, and works on many at a time.

Variables are looked up once a cluster is about to be reached: one that is not reached needs none, and what a variable
holds goes to the connection and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import environ
from pathlib import Path
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import Gateway
from quotaform.desired.config import Cluster
from quotaform.model import rule
from quotaform.model.entity import spell_name
from quotaform.model.errors import ClusterIdError, InvalidFilesError, NotReadError, QuotaformError
from quotaform.model.finding import Location
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.quotas import SnapshotFile, check_pinned_id
from quotaform.model.server import ALLOWED_HOSTS, Server, parse_server, parse_servers
from quotaform.model.settings import ClusterMetrics
from quotaform.model.text import listed, option_of, quote
from quotaform.system.files import trusted_folder

if TYPE_CHECKING:
    from quotaform.cluster.scram import ScramGateway


def connection_of(cluster: Cluster) -> tuple[tuple[Server | str, ...], ClientConfig]:
    """Return the bootstrap servers of a cluster and its client, which are meant for each other.

    A pull request may name any host in quotaform.yaml, which would get what the client properties hold. So
    `InvalidFilesError` is raised for one from there that the properties or `QUOTAFORM_ALLOWED_HOSTS` leave out; what
    the command line names is the operator's own choice, and held to that variable where it is connected to.
    """
    servers, config = _bootstrap_servers(cluster), _client_config(cluster)
    if cluster.servers_location is None:
        return servers, config
    named = parse_servers(servers)
    allowed = {server.key for server in parse_servers(config.bootstrap_servers)} if config.bootstrap_servers else None
    problems = [f"{server} {problem}" for server in named if (problem := server.problem(environ))]
    if not problems and allowed is not None:
        text = f"is not one of the bootstrap.servers in {cluster.shown_config}, so nothing is sent to it; correct it"
        problems = [f"{server} {text}, or add it there" for server in named if server.key not in allowed]
    _refuse(problems, cluster.servers_location)
    return servers, config


def require_allowed_metrics(metrics: ClusterMetrics, *, has_login: bool = False) -> None:
    """Raise `InvalidFilesError` unless the hosts of `metrics` may be asked; with a login, unless each is listed."""
    from quotaform.http.client import Url

    servers = [parse_server(each.address) for each in metrics.sources if each.is_jmx]
    urls = [Url.parse(each.address) for each in metrics.sources if not each.is_jmx]
    if metrics.prometheus is not None:
        urls.append(Url.parse(metrics.prometheus))
    servers += [url.server for url in urls]
    problems = [f"{server} {problem}" for server in servers if (problem := server.problem(environ))]
    if not problems and has_login and ALLOWED_HOSTS not in environ:
        problems = [
            f"{servers[-1]} would be sent the login for Prometheus that the environment holds; give the URL with "
            f"{option_of('prometheus')}, or list the host in {ALLOWED_HOSTS}"
        ]
    _refuse(problems, metrics.location)


def _refuse(problems: Iterable[str], location: Location | None) -> None:
    if findings := [rule.FORBIDDEN_HOST.finding(problem, location=location) for problem in problems]:
        raise InvalidFilesError(findings)


def _bootstrap_servers(cluster: Cluster) -> tuple[Server | str, ...]:
    """Return the bootstrap servers of a cluster: as they are written, or from variables, whose values are not shown.

    Raises `InvalidFilesError` if a variable is not set, may not be read, or does not hold HOST:PORT.
    """
    servers: list[Server | str] = []
    for text in cluster.bootstrap_servers:
        if (referring := cluster.server_references.get(text)) is None:
            servers.append(text)
            continue
        try:
            found = parse_servers(referring.expand(environ))
        except ValueError:
            message = f"{text} is not set to HOST:PORT, as in broker-1:9092; correct the environment variable"
            raise InvalidFilesError([rule.BAD_SERVER.finding(message, location=referring.location)]) from None
        servers += [replace(server, written=text) for server in found]
    return tuple(servers)


def _client_config(cluster: Cluster) -> ClientConfig:
    if cluster.command_config is None:
        return ClientConfig()
    from quotaform.cluster.client.reader import load_client_config

    path, name, named_at = cluster.command_config, str(cluster.shown_config), None
    if written := cluster.written_config:
        named_at = f"cluster {quote(cluster.name)}: command_config", written.location
        if written.has_variable:
            given = written.expand(environ)
            if not given.strip():  # It would be the folder of quotaform.yaml.
                text = f"{written.text} is empty; set the environment variable to the path of a client properties file"
                raise InvalidFilesError([rule.UNSET_VARIABLE.finding(text, location=written.location)])
            path = (cluster.folder or Path()) / given
    return load_client_config(path, name=name, repository=cluster.folder, named_at=named_at)


def require_pinned(
    cluster: str,
    pinned_id: str | None,
    found_id: str | None,
    *,
    snapshot: SnapshotFile | None = None,
    is_reading: bool = False,
) -> None:
    """Raise `ClusterIdError` unless a cluster is the one that quotaform.yaml pins.

    `found_id`: the id that it gives itself, or that its `snapshot` has. `is_reading`: whether nothing was going to be
    written to it, so that the error need not say that nothing was.
    """
    finding = check_pinned_id(cluster, pinned_id, found_id, snapshot)
    if finding is not None:
        raise ClusterIdError(finding, is_reading=is_reading)


def open_pinned_gateway(cluster: Cluster, *, is_reading: bool = True) -> Gateway:
    """Open a cluster; see `open_gateway`. Raises `ClusterIdError` if it is not the one that quotaform.yaml pins."""
    gateway = open_gateway(cluster)
    try:
        found_id = gateway.cluster_id()
        require_pinned(cluster.name, cluster.cluster_id, found_id, snapshot=gateway.snapshot, is_reading=is_reading)
    except BaseException:
        gateway.close()
        raise
    return gateway


def open_gateway(cluster: Cluster) -> Gateway:
    """Connect to a cluster, or open its snapshot.

    Raises `ClusterError` if it cannot be connected to, and `InvalidFilesError` if its properties or the snapshot are
    invalid.
    """
    if cluster.snapshot is not None:
        from quotaform.cluster.gateway import SnapshotGateway, read_snapshot

        within = None if cluster.folder is None else trusted_folder(cluster.snapshot, cluster.folder)
        taken = cluster.taken or read_snapshot(cluster.snapshot, within=within)
        return SnapshotGateway(taken, name=cluster.name, path=str(cluster.snapshot))
    from quotaform.cluster.kafka import KafkaGateway

    return KafkaGateway.connect(*connection_of(cluster), name=cluster.label)


REPORT_INTERVAL: Final = 0.25
"""Seconds after which progress is reported again while a cluster is waited for."""


def _remembered(progress: Progress) -> tuple[Progress, Callable[[], None]]:
    """Return what reports progress, and what reports the last step again."""
    last = ("", 0, 0)

    def steps(what: str, done: int, total: int) -> None:
        nonlocal last
        last = (what, done, total)
        progress(*last)

    return steps, lambda: progress(*last)


@contextmanager
def repeated(progress: Progress, what: str, total: int = 0) -> Iterator[Progress]:
    """Report the last step again and again, from a thread, while the block waits; it must not print anything else."""
    steps, repeat_last = _remembered(progress)
    steps(what, 0, total)
    is_over = Event()

    def repeat() -> None:
        with suppress(Exception):  # What cannot be shown is no reason to end the work.
            while not is_over.wait(REPORT_INTERVAL):
                repeat_last()

    thread = Thread(target=repeat, name="quotaform-progress", daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        is_over.set()
        thread.join()


C = TypeVar("C", bound="Gateway | ScramGateway")
T = TypeVar("T")

AT_ONCE: Final = 16
"""How many clusters are worked on at a time."""

Connect = Callable[["Cluster"], Gateway]
"""Opens the gateway of a cluster."""


def work_on(
    clusters: Sequence[Cluster],
    work: Callable[[Cluster, C, Progress], T],
    connect: Callable[[Cluster], C],
    progress: Progress = no_progress,
    known: Mapping[str, QuotaformError] = MappingProxyType({}),
) -> Iterator[ClusterOutcome[T]]:
    """Work on clusters in threads, each with a connection, and yield one outcome per cluster, in order.

    `known`: clusters that have failed already, with the reasons; they are not connected to. An error that is not a
    `QuotaformError` is raised, and an interrupt after the outcomes of all clusters that are finished. The end of the
    iterator closes the connections that are still open, which ends whatever waits for a broker, and the threads are
    daemons: so an interrupt is never kept waiting.
    """
    (steps, repeat_last), total = _remembered(progress), len(clusters)
    results: dict[str, Future[T]] = {cluster.name: Future() for cluster in clusters}
    for name, error in known.items():
        results[name].set_exception(error)
    todo = [cluster for cluster in clusters if cluster.name not in known]
    next_one = iter(todo)
    connections: list[C] = []
    lock, is_over = Lock(), Event()

    def work_on_some() -> None:
        while True:
            with lock:
                cluster = None if is_over.is_set() else next(next_one, None)
            if cluster is None:
                return
            result = results[cluster.name]
            try:
                connection = connect(cluster)
                with lock:
                    connections.append(connection)
                try:
                    if is_over.is_set():
                        raise NotReadError("not read: the run is over")
                    result.set_result(work(cluster, connection, steps if total == 1 else no_progress))
                finally:
                    with lock:
                        connections.remove(connection)
                    connection.close()
            except BaseException as error:
                if not result.done():
                    result.set_exception(error)

    def outcome(cluster: Cluster) -> ClusterOutcome[T]:
        return ClusterOutcome.of(cluster.name, results[cluster.name].result)

    try:
        for number in range(min(AT_ONCE, len(todo))):
            Thread(target=work_on_some, name=f"quotaform-cluster-{number}", daemon=True).start()
        steps(f"Reading quotas of {_names(clusters)}", 0, total if total > 1 else 0)
        for place, cluster in enumerate(clusters):
            try:
                while not wait([results[cluster.name]], REPORT_INTERVAL).done:
                    waiting = [each for each in clusters if not results[each.name].done()]
                    if total == 1:
                        repeat_last()
                    elif waiting:
                        steps(f"Waiting for {_names(waiting)}", total - len(waiting), total)
            except KeyboardInterrupt:
                yield from (outcome(each) for each in clusters[place:] if results[each.name].done())
                raise
            yield outcome(cluster)
    finally:
        with lock:
            is_over.set()
            left = tuple(connections)
        for connection in left:
            with suppress(Exception):
                connection.close()


def _names(clusters: Sequence[Cluster]) -> str:
    return listed((spell_name(cluster.label) for cluster in clusters), 3)
