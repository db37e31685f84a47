"""The command line of Kafka's own reader of JMX, for brokers that offer nothing else."""

from __future__ import annotations

import os
from typing import Final

from quotaform.sandbox.jar import find_tool_jars
from quotaform.sandbox.java import find_java
from quotaform.sandbox.progress import Progress, no_progress

JMX_TOOL: Final = "org.apache.kafka.tools.JmxTool"


def jmx_tool_command(progress: Progress = no_progress) -> list[str]:
    """Return the command line of `JmxTool` without its options.

    Java is the sandbox's, and so are the jars, if there is no KAFKA_HOME.

    Args:
        progress: Called with how far a download is.

    Raises:
        SandboxError: Java or a jar cannot be had.
    """
    jars = find_tool_jars(progress)
    return [
        str(find_java().command),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-cp",
        os.pathsep.join(str(jar) for jar in jars),
        JMX_TOOL,
    ]
