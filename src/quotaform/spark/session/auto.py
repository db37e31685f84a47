"""Which engine a command uses when it may choose."""

from __future__ import annotations

from typing import Final

from quotaform.errors import EngineError
from quotaform.files import MIB
from quotaform.spark.session.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session.session import require_spark

MOST_CLUSTERS: Final = 400
"""As many clusters as are planned in this process. Of 2,000 quotas each, so many take as long on Spark with two cores
(bench/README.md); with eight, half as long."""
MOST_BYTES: Final = 64 * MIB
"""As much of quota files as is read in this process."""


def chosen_engine(clusters: int, size: int, session: SessionOptions = LOCAL_SESSION) -> tuple[str, str | None]:
    """Return the engine for some work, and why.

    | clusters | quota files | Spark can be used here | engine |
    | --- | --- | --- | --- |
    | 400 or fewer | 64 MiB or less | any | local |
    | more | any | yes | spark |
    | any | more | yes | spark |
    | more, or | more | no | local |

    Args:
        size: How many bytes the quota files have.

    Returns:
        `local` or `spark`, and a clause that says why; `None` for work that is small enough for this process.
    """
    if clusters > MOST_CLUSTERS:
        reason = f"{clusters:,} clusters are more than {MOST_CLUSTERS}"
    elif size > MOST_BYTES:
        reason = f"{size // MIB:,} MiB of quota files are more than {MOST_BYTES // MIB} MiB"
    else:
        return "local", None
    try:
        require_spark(session)
    except EngineError as error:
        return "local", f"{reason}, but Spark cannot be used: {str(error).removesuffix('.')}"
    return "spark", reason
