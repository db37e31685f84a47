"""Opens clusters of a repository: a snapshot, or the running one that quotaform.yaml pins.

Variables are looked up once a cluster is about to be reached: one that is not reached needs none, and what a variable
holds goes to the connection and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import environ
from pathlib import Path

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import Gateway
from quotaform.desired.config import Cluster
from quotaform.model import rule
from quotaform.model.errors import ClusterIdError, InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.quotas import SnapshotFile, check_pinned_id
from quotaform.model.server import ALLOWED_HOSTS, Server, parse_server, parse_servers
from quotaform.model.settings import ClusterMetrics
from quotaform.model.text import option_of, quote
from quotaform.system.files import trusted_folder


def connection_of(
    cluster: Cluster, environment: Mapping[str, str] = environ
) -> tuple[tuple[Server | str, ...], ClientConfig]:
    """Return the bootstrap servers of a cluster and its client, which are meant for each other.

    A pull request may name any host in quotaform.yaml, which would get what the client properties hold. So
    `InvalidFilesError` is raised for one from there that the properties or `QUOTAFORM_ALLOWED_HOSTS` leave out; what
    the command line names is the operator's own choice, and held to that variable where it is connected to.
    """
    servers, config = bootstrap_servers(cluster, environment), _client_config(cluster, environment)
    if cluster.servers_location is None:
        return servers, config
    named = parse_servers(servers)
    allowed = {server.key for server in parse_servers(config.bootstrap_servers)} if config.bootstrap_servers else None
    problems = [f"{server} {problem}" for server in named if (problem := server.problem(environment))]
    if not problems and allowed is not None:
        text = f"is not one of the bootstrap.servers in {cluster.shown_config}, so nothing is sent to it; correct it"
        problems = [f"{server} {text}, or add it there" for server in named if server.key not in allowed]
    _refuse(problems, cluster.servers_location)
    return servers, config


def require_allowed_metrics(
    metrics: ClusterMetrics, environment: Mapping[str, str] = environ, *, has_login: bool = False
) -> None:
    """Raise `InvalidFilesError` unless the hosts of `metrics` may be asked; with a login, unless each is listed."""
    from quotaform.http.message import Url

    servers = [parse_server(each.address) for each in metrics.sources if each.is_jmx]
    urls = [Url.parse(each.address) for each in metrics.sources if not each.is_jmx]
    if metrics.prometheus is not None:
        urls.append(Url.parse(metrics.prometheus))
    servers += [url.server for url in urls]
    problems = [f"{server} {problem}" for server in servers if (problem := server.problem(environment))]
    if not problems and has_login and ALLOWED_HOSTS not in environment:
        problems = [
            f"{servers[-1]} would be sent the login for Prometheus that the environment holds; give the URL with "
            f"{option_of('prometheus')}, or list the host in {ALLOWED_HOSTS}"
        ]
    _refuse(problems, metrics.location)


def _refuse(problems: Iterable[str], location: Location | None) -> None:
    if findings := [rule.FORBIDDEN_HOST.finding(problem, location=location) for problem in problems]:
        raise InvalidFilesError(findings)


def bootstrap_servers(cluster: Cluster, environment: Mapping[str, str] = environ) -> tuple[Server | str, ...]:
    """Return the bootstrap servers of a cluster: as they are written, or from variables, whose values are not shown.

    Raises `InvalidFilesError` if a variable is not set, may not be read, or does not hold HOST:PORT.
    """
    servers: list[Server | str] = []
    for text in cluster.bootstrap_servers:
        if (referring := cluster.server_references.get(text)) is None:
            servers.append(text)
            continue
        try:
            found = parse_servers(referring.expand(environment))
        except ValueError:
            message = f"{text} is not set to HOST:PORT, as in broker-1:9092; correct the environment variable"
            raise InvalidFilesError([rule.BAD_SERVER.finding(message, location=referring.location)]) from None
        servers += [replace(server, written=text) for server in found]
    return tuple(servers)


def _client_config(cluster: Cluster, environment: Mapping[str, str]) -> ClientConfig:
    if cluster.command_config is None:
        return ClientConfig()
    from quotaform.cluster.client.reader import load_client_config

    path, name, named_at = cluster.command_config, str(cluster.shown_config), None
    if written := cluster.written_config:
        named_at = f"cluster {quote(cluster.name)}: command_config", written.location
        if written.has_variable:
            given = written.expand(environment)
            if not given.strip():  # It would be the folder of quotaform.yaml.
                text = f"{written.text} is empty; set the environment variable to the path of a client properties file"
                raise InvalidFilesError([rule.UNSET_VARIABLE.finding(text, location=written.location)])
            path = (cluster.folder or Path()) / given
    return load_client_config(path, name=name, environ=environment, repository=cluster.folder, named_at=named_at)


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
