"""What makes a broker of a sandbox measurable from outside: the exporter of its metrics to Prometheus, and JMX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from quotaform.errors import SandboxError
from quotaform.sandbox.cache import shown
from quotaform.sandbox.node import Node
from quotaform.sandbox.port import HOST

EXPORTER_RULES: Final = "jmx-exporter-rules.yml"
"""The file of this package with the exporter's rules."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How the brokers of a sandbox can be measured, on loopback and without authentication.

    Attributes:
        exporter: The jar of the exporter, which serves `/metrics` of each broker; `None` for none.
        jmx: Whether each broker opens a port for JMX, which lets any local process run what the broker may run.
    """

    exporter: Path | None = None
    jmx: bool = False

    @property
    def ports(self) -> int:
        """How many ports each node needs for it."""
        return (self.exporter is not None) + self.jmx

    def write_rules(self, directory: Path) -> None:
        """Write the rules of the exporter to the directory of the sandbox."""
        if self.exporter is not None:
            text = resources.files(__package__).joinpath(EXPORTER_RULES).read_text(encoding="utf-8")
            (directory / EXPORTER_RULES).write_text(text, encoding="utf-8")

    def options(self, node: Node, directory: Path) -> Sequence[str]:
        """Return the options of a node's JVM.

        Raises:
            SandboxError: The JVM cannot be told the place of the exporter.
        """
        options: list[str] = []
        if self.exporter is not None:
            # The JVM takes what follows the first `=` as the agent's options.
            if "=" in str(self.exporter):
                raise SandboxError(
                    f"Java cannot load an agent from {shown(self.exporter.parent)}, because its name contains '='; "
                    "set QUOTAFORM_CACHE to another directory."
                )
            rules = directory / EXPORTER_RULES
            options.append(f"-javaagent:{self.exporter}={HOST}:{node.metrics_port}:{rules}")
        if self.jmx:
            options += [
                f"-Dcom.sun.management.jmxremote.host={HOST}",
                f"-Dcom.sun.management.jmxremote.port={node.jmx_port}",
                f"-Dcom.sun.management.jmxremote.rmi.port={node.jmx_port}",
                "-Dcom.sun.management.jmxremote.authenticate=false",
                "-Dcom.sun.management.jmxremote.ssl=false",
                f"-Djava.rmi.server.hostname={HOST}",
            ]
        return options
