"""Where a cluster is and how to connect to it, once it is about to be reached: then variables are looked up.

A cluster that is not reached needs no variable, and what a variable holds goes to the connection and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.core.check import rule
from quotaform.errors import InvalidFilesError
from quotaform.files import trusted_folder
from quotaform.model.server import HiddenServer, Server, parse_servers

if TYPE_CHECKING:
    from quotaform.cluster.client.config import ClientConfig
    from quotaform.desired.config import Cluster


def bootstrap_servers(cluster: Cluster, environment: Mapping[str, str] = environ) -> tuple[Server | str, ...]:
    """Return the bootstrap servers of a cluster: as they are written, or from variables, whose values are not shown.

    Raises:
        InvalidFilesError: A variable is not set, may not be read, or does not hold HOST:PORT.
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
        servers += [HiddenServer(host, port, text) for host, port in found]
    return tuple(servers)


def client_config(cluster: Cluster, environment: Mapping[str, str] = environ) -> ClientConfig:
    """Read the client properties of a cluster; the defaults when it has none.

    Raises:
        InvalidFilesError: They are invalid, or a variable that names them is not set, is empty or may not be read.
    """
    if cluster.command_config is None:
        from quotaform.cluster.client.config import ClientConfig

        return ClientConfig()
    from quotaform.cluster.client.config_reader import load_client_config

    path, name = cluster.command_config, str(cluster.command_config)
    if referring := cluster.config_reference:
        given = referring.expand(environment)
        if not given.strip():  # It would be the folder of quotaform.yaml.
            text = f"{referring.text} is empty; set the environment variable to the path of a client properties file"
            raise InvalidFilesError([rule.UNSET_VARIABLE.finding(text, location=referring.location)])
        path, name = (cluster.folder or Path()) / given, referring.text
    return load_client_config(path, name=name, environ=environment, repository=cluster.folder)


def folder_of(cluster: Cluster, path: Path) -> Path | None:
    """Return the folder that a file of a cluster must lie in; `None` for one that the operator names."""
    return None if cluster.folder is None else trusted_folder(path, cluster.folder)
