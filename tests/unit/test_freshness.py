"""A plan of another cluster; `rules-fresh.txt` has whether a plan still fits the cluster that it was made for."""

from __future__ import annotations

import pytest

from quotaform.model.errors import StaleError
from tests.builder import plan_of


def test_a_plan_for_another_cluster_is_stale() -> None:
    plan = plan_of({}, {})
    plan.require_cluster("3JxQ0v7pT2a")
    with pytest.raises(StaleError, match="is for cluster 3JxQ0v7pT2a, but this is cluster another; nothing was writt"):
        plan.require_cluster("another")
