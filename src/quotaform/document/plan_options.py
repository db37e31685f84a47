"""The options of a plan, as plan files, receipts and drift documents hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quotaform.core.guard_limits import GuardLimits
from quotaform.core.plan_options import PlanOptions
from quotaform.core.prune import PruneMode
from quotaform.core.scope import count_problem
from quotaform.document.shape import ShapeError, readable


def dump_options(options: PlanOptions) -> dict[str, Any]:
    """Return the options of a plan as JSON holds them; limits that are the defaults are left out."""
    return {
        "prune": options.prune.value,
        **({"prune_given": True} if options.is_prune_given else {}),
        **_globs(options),
        **options.limits.dump(),
        **_server(options),
        **({} if options.revert is None else {"revert": options.revert}),
    }


def dump_drift_options(options: PlanOptions) -> dict[str, Any]:
    """Return those options that say what was compared."""
    return {**_globs(options), **_server(options)}


def load_options(item: Mapping[str, Any]) -> PlanOptions:
    """Return the options of a plan as `dump_options` had them.

    Raises `ShapeError` if there is no such way to prune, or it protects more than a quotaform.yaml can say.
    """
    if problem := count_problem(item.get("protect", ())):
        raise ShapeError("options.protect", f"is too long: {problem}")
    with readable("options.prune"):
        prune = PruneMode(item["prune"])
    return PlanOptions(
        prune=prune,
        select=tuple(item["select"]),
        exclude=tuple(item["exclude"]),
        limits=GuardLimits.load(item),
        bootstrap_server=item.get("bootstrap_server"),
        revert=item.get("revert"),
        is_prune_given=item.get("prune_given", False),
    )


def _globs(options: PlanOptions) -> dict[str, Any]:
    return {"select": list(options.select), "exclude": list(options.exclude)}


def _server(options: PlanOptions) -> dict[str, Any]:
    return {} if options.bootstrap_server is None else {"bootstrap_server": options.bootstrap_server}
