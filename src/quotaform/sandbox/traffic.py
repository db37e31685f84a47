"""Clients of a sandbox with known rates: Kafka's own commands that produce and consume."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from quotaform.errors import SandboxError
from quotaform.sandbox.jar import find_tool_jars
from quotaform.sandbox.java import find_java
from quotaform.sandbox.runtime import Runtime, java_environment
from quotaform.sandbox.sandbox import Sandbox

_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_RECORD_BYTES: Final = 10_000


class Traffic:
    """Producers and consumers of one sandbox; they end with the block."""

    def __init__(self, kafka: Sandbox) -> None:
        """Describe it; nothing runs until `produce` or `consume`."""
        self._kafka = kafka
        self._runtime = Runtime(find_java(), find_tool_jars(), kafka.data_dir)
        self._producers: list[subprocess.Popen[str]] = []
        self._consumers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs."""
        for process in (*self._producers, *self._consumers):
            process.kill()
            process.communicate()

    def produce(self, topic: str, client_id: str, *, rate: int, seconds: int) -> None:
        """Start a producer that has records for a rate, whether it is throttled or not.

        Args:
            topic: Where it writes; the topic is made if it is missing.
            client_id: Its client-id.
            rate: Bytes per second.
            seconds: How long its records last at that rate; throttled, it takes longer.
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
        self._consumers.append(
            self._start(
                _CONSUMER,
                *("--bootstrap-server", self._kafka.bootstrap_servers),
                *("--topic", topic, "--group", client_id, "--from-beginning"),
                *("--command-property", f"client.id={client_id}"),
            )
        )

    def wait(self, timeout: float = 120.0) -> None:
        """Wait until the producers have sent everything.

        Raises:
            SandboxError: One failed, or has not ended in time.
        """
        for process in self._producers:
            try:
                _, errors = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as error:
                raise SandboxError(f"A producer of the sandbox has not ended within {timeout:g} s.") from error
            if process.returncode:
                raise SandboxError(f"A producer of the sandbox failed: {errors.strip()[-400:]}")

    def _start(self, main_class: str, *arguments: str) -> subprocess.Popen[str]:
        command: Sequence[str] = self._runtime.command(main_class, *arguments)
        return subprocess.Popen(  # noqa: S603 (a class of Kafka's)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=java_environment(),
        )
