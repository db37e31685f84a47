"""Every view of the example, made from the same input in another order: `python -m tests.golden.shuffled SEED`.

A process of its own has its own string hashes (PYTHONHASHSEED), and so its own order of sets.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from json import dumps
from typing import Any

from quotaform.drift.drift import make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift
from quotaform.model.finding import by_severity
from quotaform.plan.difference import diff, make_plan
from quotaform.plan.plan import Plan
from quotaform.plan.report import render_plan
from quotaform.report.text import Style
from tests.builder import dumped_plan
from tests.golden.example import ACTUAL, ENTRIES, FINDINGS, SCOPE, example_plan, of_the_right_cluster


def shuffled(mapping: Mapping[Any, Any], chance: random.Random) -> dict[Any, Any]:
    """Return a mapping, and the mappings in it, in another order."""
    items = [(key, shuffled(value, chance) if isinstance(value, dict) else value) for key, value in mapping.items()]
    chance.shuffle(items)
    return dict(items)


def views(seed: int) -> dict[str, str]:
    """Return the views of the example in an order that follows from a seed."""
    chance = random.Random(seed)
    desired = shuffled({entry.entity: entry for entry in ENTRIES}, chance)
    actual = shuffled(ACTUAL, chance)
    rows, findings = list(diff(desired, actual)), list(FINDINGS)
    chance.shuffle(rows)
    chance.shuffle(findings)
    plan = make_plan(rows, desired, actual, example_plan().header, scope=SCOPE)
    plan = replace(plan, findings=tuple(by_severity(findings)))
    return plan_views(plan)


def plan_views(plan: Plan) -> dict[str, str]:
    """Return what the golden files hold of a plan, by their names."""
    return {
        "plan.txt": "".join(render_plan(plan)),
        "plan-full.txt": "".join(render_plan(plan, shows_unchanged=True, shows_unmanaged=True)),
        "plan-colour.txt": "".join(render_plan(plan, Style(True))),
        "plan.json": dumped_plan(plan),
        "drift.txt": render_drift(make_drift(of_the_right_cluster(plan))),
        "drift.json": dump_drift(make_drift(of_the_right_cluster(plan))),
    }


if __name__ == "__main__":
    print(dumps(views(int(sys.argv[1]))))
