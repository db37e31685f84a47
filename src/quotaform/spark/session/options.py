"""Where a command runs Spark, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from re import compile as regex
from typing import Final

from quotaform.errors import UsageError
from quotaform.model.text import quote
from quotaform.model.variable import OwnSecret
from quotaform.spark.session.endpoint import Master, Remote

_SECRET: Final = regex(r"(?i)secret|passw(or)?d|token|access[._-]?key|([._-]|api|private)key$|sasl[._]jaas[._]config")
"""What `spark.redaction.regex` of Spark looks for, and names of settings of Kafka and of cloud storage."""
_PLACE: Final = regex(r"(?i)(file|path|location|provider|class|enabled|interval|lifetime)$")
"""How names of settings end that say where a secret is, or what is done with one."""
_KUBERNETES: Final = regex(r"spark\.kubernetes\.(driver|executor)\.secret(s|KeyRef)\..*")
"""Settings that name a secret of Kubernetes."""
_NAMED: Final = {"spark.master": "--master", "spark.remote": "--remote"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Where Spark runs; in this process if nothing says anything else.

    Attributes:
        master: The URL of a master, e.g. `spark://host:7077`, `yarn`, `k8s://https://host:443` or `local[2]`.
        remote: The URL of a Spark Connect server, e.g. `sc://host:15002`.
        conf: Settings of Spark, which take precedence over those that quotaform chooses.
        has_joins: Whether Spark itself computes, as in joins of millions of rows, so that Java's second compiler pays.
        is_only_engine: Whether what is done can be done on Spark only, so that no error names another engine.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    has_joins: bool = False
    is_only_engine: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """The command options that say anything."""
        options = {"--master": self.master, "--remote": self.remote, "--spark-conf": self.conf}
        return tuple(name for name, value in options.items() if value)

    def require_valid(self) -> None:
        """Make sure that Spark can be asked for this, before any work is done.

        Raises `UsageError` if a URL is none, the two exclude each other, or a setting cannot be given this way.
        """
        if self.master is not None and self.remote is not None:
            raise UsageError("--master and --remote cannot be combined; give one of them")
        if self.master is not None:
            Master.parse("--master", self.master)
        if self.remote is not None:
            # Not shown: an option is seen in the list of processes and in the logs of CI.
            for name in Remote.parse("--remote", self.remote).parameters:
                if is_secret(name):
                    raise UsageError(
                        f"--remote: {quote(name)} is a secret, and options are visible to others; put a token into "
                        f"the environment variable {OwnSecret.SPARK_CONNECT_TOKEN}, or the whole URL into "
                        f"{OwnSecret.SPARK_REMOTE}"
                    )
        for name in self.conf:
            _require_usable(name)


LOCAL_SESSION: Final = SessionOptions()
"""Nothing says anything: a session that exists, or one of this machine."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting of that name is a secret.

    >>> is_secret("spark.ssl.keyStorePassword"), is_secret("spark.hadoop.fs.s3a.access.key")
    (True, True)
    >>> is_secret("spark.sql.mapKeyDedupPolicy"), is_secret("spark.kubernetes.executor.secrets.kafka-properties")
    (False, False)
    """
    return bool(_SECRET.search(name)) and not (_PLACE.search(name) or _KUBERNETES.fullmatch(name))


def _require_usable(name: str) -> None:
    """Make sure that a setting can be given on the command line.

    Raises `UsageError` if Spark does not know settings of such a name, it has an option of its own, or it is a secret.
    """
    if not name.startswith("spark.") or not name.isprintable() or any(sign.isspace() for sign in name):
        raise UsageError(f"--spark-conf {quote(name)}: the name of a Spark setting begins with spark.")
    if name in _NAMED:
        raise UsageError(f"--spark-conf {name}: give {_NAMED[name]} instead")
    if is_secret(name):
        raise UsageError(
            f"--spark-conf {quote(name)}: this is a secret, and options are visible to others, in Spark's UI and in "
            "logs; put it into spark-defaults.conf in the folder that SPARK_CONF_DIR names, or into a file on the "
            "executors"
        )
