"""Kafka's own commands: its reader of JMX, and clients of a sandbox with known rates."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from re import compile as regex
from typing import Final

from quotaform.model.errors import SandboxError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox.java import Runtime, find_java, java_environment
from quotaform.sandbox.release import find_tool_jars
from quotaform.sandbox.sandbox import Sandbox

JMX_TOOL: Final = "org.apache.kafka.tools.JmxTool"

_JARS: Final = regex(r"(kafka-tools|kafka-server-common|kafka-clients|jopt-simple|slf4j-api)-[0-9][^/]*\.jar").fullmatch
"""All that it needs: what a hostile server makes Java read finds no other classes."""

_READ: Final = {
    "java.lang": "Boolean Double Float Integer Long Number Object String",
    "java.util": "ArrayList HashSet Map$Entry",
    "java.rmi.dgc": "Lease VMID",
    "java.rmi.server": "ObjID RemoteObject RemoteStub UID",
    "javax.management": "Attribute AttributeList MBeanAttributeInfo MBeanConstructorInfo MBeanFeatureInfo MBeanInfo "
    "MBeanNotificationInfo MBeanOperationInfo MBeanParameterInfo ObjectName",
    "javax.management.remote.rmi": "RMIConnectionImpl_Stub RMIServerImpl_Stub",
    "javax.rmi.ssl": "SslRMIClientSocketFactory",
}
"""The classes of an answer with numbers, by package."""
_ERRORS: Final = {
    "java.lang": "Exception RuntimeException SecurityException StackTraceElement Throwable",
    "java.io": "IOException",
    "java.rmi": "NotBoundException RemoteException",
    "java.util": "Collections$EmptyList",
    "javax.management": "InstanceNotFoundException JMException OperationsException",
}
"""The classes of an answer that says what is wrong."""


def serial_filter() -> str:
    """Return the filter that lets Java read answers of JMX, and no other objects.

    Source: java.io.ObjectInputFilter.Config.
    """
    classes = [f"{package}.{name}" for each in (_READ, _ERRORS) for package in each for name in each[package].split()]
    return ";".join(["maxdepth=20", "maxarray=1048576", *classes, "!*"])


def jmx_tool_command(progress: Progress = no_progress) -> list[str]:
    """Return the command line of `JmxTool` without its options.

    Java is the sandbox's, and so are the jars, if there is no KAFKA_HOME.
    """
    jars = [str(jar) for jar in find_tool_jars(progress) if _JARS(jar.name)]
    return [
        str(find_java().command),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        f"-Djdk.serialFilter={serial_filter()}",
        "-cp",
        os.pathsep.join(jars),
        JMX_TOOL,
    ]


_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
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
        """Start a producer that has records for a rate, whether it is throttled or not.

        The topic is made if it is missing. `rate` is bytes per second; throttled, it takes longer than
        `seconds`.
        """
        per_second = max(1, rate // _RECORD_BYTES)
        self._producers.append(
            self._start(
                _PRODUCER,
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
            _CONSUMER,
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
