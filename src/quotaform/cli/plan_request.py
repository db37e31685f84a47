"""What plan, drift and apply share: from options to what is to be planned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.cli.console import require_format
from quotaform.cli.option.common import FORMATS
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.plan import PlanRequest
    from quotaform.cli.option.cluster import OneCluster


def make_request(
    target: OneCluster,
    directory: Path | None,
    select: list[str] | None,
    exclude: list[str] | None,
    snapshot: Path | None = None,
) -> PlanRequest:
    """Return what is to be planned.

    Raises:
        UsageError: The cluster is not clear.
        InvalidFilesError: quotaform.yaml is invalid.
    """
    from quotaform.app.plan import PlanRequest
    from quotaform.core.scope import Selection

    repository = target.repository(directory)
    config = repository.config()
    return PlanRequest(
        repository=repository,
        config=config,
        clusters=(target.choose(repository, config, snapshot=snapshot),),
        selection=Selection(tuple(select or ()), tuple(exclude or ())),
    )


def read_output(text: str) -> tuple[str, Path]:
    """Read the value of `--out`: FORMAT=PATH, or a path alone for JSON.

    Raises:
        UsageError: The format does not exist, or there is no path.
    """
    name, separator, path = text.partition("=")
    if not separator:
        name, path = "json", text
    require_format(name, FORMATS)
    if not path:
        raise UsageError(f"--out {text}: a path is missing; write for example --out json=plan.json")
    return name, Path(path)
