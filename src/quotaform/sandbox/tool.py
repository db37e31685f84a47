"""Kafka's own commands: its reader of JMX, and clients of a sandbox with known rates."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from re import compile as regex
from typing import Final

from quotaform.model.errors import SandboxError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox.release import Runtime, find_java, find_tool_jars, java_environment
from quotaform.sandbox.sandbox import Sandbox

_JARS: Final = regex(r"(kafka-tools|kafka-server-common|kafka-clients|jopt-simple|slf4j-api)-[0-9][^/]*\.jar").fullmatch
"""All that it needs: what a hostile server makes Java read finds no other classes."""

_CLASSES: Final = {
    "java.io": "IOException",
    "java.lang": "Boolean Double Exception Float Integer Long Number Object RuntimeException SecurityException "
    "StackTraceElement String Throwable",
    "java.util": "ArrayList Collections$EmptyList HashSet Map$Entry",
    "java.rmi": "NotBoundException RemoteException",
    "java.rmi.dgc": "Lease VMID",
    "java.rmi.server": "ObjID RemoteObject RemoteStub UID",
    "javax.management": "Attribute AttributeList InstanceNotFoundException JMException MBeanAttributeInfo "
    "MBeanConstructorInfo MBeanFeatureInfo MBeanInfo MBeanNotificationInfo MBeanOperationInfo MBeanParameterInfo "
    "ObjectName OperationsException",
    "javax.management.remote.rmi": "RMIConnectionImpl_Stub RMIServerImpl_Stub",
    "javax.rmi.ssl": "SslRMIClientSocketFactory",
}
"""The classes of answers of JMX, with numbers or an error, by package; Java reads no others."""


def jmx_tool_command(progress: Progress = no_progress) -> list[str]:
    """Return the command line of `JmxTool` without options; Java and, without a KAFKA_HOME, jars are the sandbox's."""
    jars = [str(jar) for jar in find_tool_jars(progress) if _JARS(jar.name)]
    classes = [f"{package}.{name}" for package, names in _CLASSES.items() for name in names.split()]
    return [
        str(find_java().command),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        # Source: java.io.ObjectInputFilter.Config.
        f"-Djdk.serialFilter={';'.join(['maxdepth=20', 'maxarray=1048576', *classes, '!*'])}",
        "-cp",
        os.pathsep.join(jars),
        "org.apache.kafka.tools.JmxTool",
    ]


_RECORD_BYTES: Final = 10_000


class Traffic(ExitStack):
    """Producers and consumers of one sandbox; they end with the block."""

    def __init__(self, kafka: Sandbox) -> None:
        """Describe it; nothing runs until `produce` or `consume`."""
        super().__init__()
        self._kafka = kafka
        self._runtime = Runtime(find_java(), find_tool_jars(), kafka.data_dir)
        self._producers: list[subprocess.Popen[str]] = []

    def produce(self, topic: str, client_id: str, *, rate: int, seconds: int) -> None:
        """Start a producer with records for so many seconds at a rate of bytes per second, or longer if throttled."""
        per_second = max(1, rate // _RECORD_BYTES)
        self._producers.append(
            self._start(
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", topic),
                *("--num-records", str(per_second * seconds)),
                *("--record-size", str(_RECORD_BYTES)),
                *("--throughput", str(per_second)),
                *("--bootstrap-server", self._kafka.bootstrap_servers),
                "--command-property",
                f"client.id={client_id}",
                "acks=1",
                # What the broker delays waits in the producer's buffer and does not fail.
                "buffer.memory=536870912",
                "delivery.timeout.ms=600000",
                "request.timeout.ms=300000",
            )
        )

    def consume(self, topic: str, client_id: str) -> None:
        """Start a consumer that reads a topic from where its group has read to, or from its beginning on."""
        self._start(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self._kafka.bootstrap_servers),
            *("--topic", topic, "--group", client_id, "--from-beginning"),
            *("--command-property", f"client.id={client_id}"),
        )

    def wait(self, timeout: float = 120.0) -> None:
        """Wait until the producers have sent everything."""
        for process in self._producers:
            try:
                _, errors = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as error:
                raise SandboxError(f"A producer of the sandbox has not ended within {timeout:g} s.") from error
            if process.returncode:
                raise SandboxError(f"A producer of the sandbox failed: {errors.strip()[-400:]}")

    def _start(self, main_class: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 (a class of Kafka's)
            self._runtime.command(main_class, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=java_environment(),
        )
        self.callback(process.communicate)
        self.callback(process.kill)
        return process
