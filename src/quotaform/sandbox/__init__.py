"""A real Apache Kafka on loopback.

Usage::

    with Sandbox() as kafka:
        print(kafka.bootstrap_servers)

`quotaform.sandbox.detached` keeps one running for `quotaform sandbox start`.
"""

from quotaform.sandbox.release import KAFKA_VERSION
from quotaform.sandbox.sandbox import Sandbox

__all__ = ["KAFKA_VERSION", "Sandbox"]
