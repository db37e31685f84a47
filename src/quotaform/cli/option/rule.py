"""Which options need another one, and which cannot be given together: one table for all commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from quotaform.model.errors import UsageError

_SPARK: Final = "--engine --master --remote --spark-conf"

NEEDED: Final = {
    "--bootstrap-server": "--command-config",
    "validate --check-principals": "--bootstrap-server --command-config",
    "plan --principals": "--principals-out",
    "drift --watch": "--listen",
    "drift --history": "--against",
    "drift --against": "--history",
    "ingest --prometheus": "--since --query",
    "ingest --since": "--prometheus",
    "ingest --topic": "--bootstrap-server --topic-cluster --checkpoint --until-empty --for",
    "ingest --bootstrap-server|--topic-cluster": "--topic",
    "ingest --checkpoint": "--topic",
}
"""An option of all commands or of one, with its alternatives, to those that cannot be given without it."""

EXCLUSIVE: Final = {
    "--all": "--cluster --bootstrap-server",
    "--snapshot": "--bootstrap-server --all",
    "ENTITY": "--name --default --any --prefix --not",
    "--base": "--no-base",
    "plan --summary": "--format",
    "plan --backtest": "--engine",
    "plan --revert": f"--snapshot --base --no-base --prune {_SPARK}",
    "apply --dry-run": f"--format --report --receipt --audit {_SPARK}",
    "drift --against": "--baseline",
    "drift --watch": f"--format --out --report --exit-zero --against --snapshot --select --exclude {_SPARK}",
    "resolve --from": "ENTITY --name",
    "resolve --out": "--format --omit-overridden",
    "upsert --password-file": "--password-env",
    "demo --fleet": "--usage",
    "top --source": "--prometheus --label",
    "headroom --quotas": "--cluster --all --bootstrap-server --snapshot",
    "recommend --diff": "--write --format",
    "ingest SOURCE": "--topic --prometheus",
    "ingest --topic": "--prometheus",
    "ingest --topic-cluster": "--bootstrap-server",
    "ingest --until-empty": "--for",
}
"""An option or argument to those that cannot be given with it."""


def require_together(command: str, given: set[str]) -> None:
    """Make sure that options go together. Raises `UsageError`."""
    for name, other in _pairs(EXCLUSIVE, command, given):
        if name in given:
            raise UsageError(f"{name} and {other} cannot be combined; give one of them")
    for name, other in _pairs(NEEDED, command, given):
        if not given.intersection(name.split("|")):
            raise UsageError(f"{other} requires {name.replace('|', ' or ')}")


def _pairs(table: Mapping[str, str], command: str, given: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what a table has on each option that is given."""
    for key, others in table.items():
        only, _, name = key.rpartition(" ")
        if only in ("", command):
            yield from ((name, other) for other in others.split() if other in given)
