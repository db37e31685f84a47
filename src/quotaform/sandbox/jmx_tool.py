"""The command line of Kafka's own reader of JMX, for brokers that offer nothing else."""

from __future__ import annotations

import os
from re import compile as regex
from typing import Final

from quotaform.sandbox.jar import find_tool_jars
from quotaform.sandbox.java import find_java
from quotaform.sandbox.progress import Progress, no_progress

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

    Args:
        progress: Called with how far a download is.

    Raises:
        SandboxError: Java or a jar cannot be had.
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
