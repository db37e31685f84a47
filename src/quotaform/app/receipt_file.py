"""Where the receipts of applies are kept."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.repository import Repository
from quotaform.core.plan import Plan


def receipt_path(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> Path:
    """Return where the receipt of an apply goes unless somebody says otherwise."""
    moment = timestamp(clock).replace(":", "").replace("-", "")
    cluster = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in plan.header.cluster_name)
    stem = f"{moment}-{cluster}-{plan.plan_id.removeprefix('sha256:')[:8]}"
    folder = repository.config_path.parent / ".quotaform" / "receipts"
    names = (f"{stem}{suffix}.json" for suffix in chain([""], (f"-{number}" for number in count(2))))
    return next(folder / name for name in names if not (folder / name).exists())
