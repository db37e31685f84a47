"""What was asked for when a plan was made."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, GuardLimits
from quotaform.core.prune import PruneMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What was asked for when a plan was made, and what its guards went by.

    Attributes:
        prune: What happens to entities in scope that no file declares.
        select: Globs of the addresses to include; empty for all.
        exclude: Globs of the addresses to leave out.
        limits: What guards went by; the defaults for a plan that was made without guards.
        bootstrap_server: What was given with `--bootstrap-server`, when it stands for the cluster.
        revert: The id of the plan that this one reverts, if it reverts one.
        is_prune_given: Whether the option `--prune` said what `prune` is, and not quotaform.yaml.
    """

    prune: PruneMode = PruneMode.REPORT
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    limits: GuardLimits = DEFAULT_GUARD_LIMITS
    bootstrap_server: str | None = None
    revert: str | None = None
    is_prune_given: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether anything could be left out."""
        return bool(self.select or self.exclude)

    @property
    def is_revert(self) -> bool:
        """Whether the plan puts back what another one changed, and does not follow the files."""
        return self.revert is not None
