"""Kafka client quotas as code: validate, plan, apply, and detect drift.

The Python API is the use cases (`plan`, `apply`, `drift`, ...) of a `Repository`, `QuotaAdmin` for one cluster, and
the values that they take and return; errors are in `quotaform.model.errors`.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    # `python -m quotaform` looks for modules in the current folder first, which may hold a stranger's yaml.py. Only
    # then anything else is imported.
    del sys.path[0]

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

    from quotaform.api import (
        apply,
        check_principals,
        describe,
        drift,
        explain,
        import_quotas,
        plan,
        record_usage,
        resolve,
        snapshot,
        top,
        validate,
    )
    from quotaform.model.alteration import Alteration, AlterResult, AlterRow, Outcome
    from quotaform.model.entity import Entity
    from quotaform.model.errors import QuotaformError
    from quotaform.model.filter import ANY, Described, EntityFilter, FilterComponent, Rule
    from quotaform.model.outcome import ClusterOutcome
    from quotaform.repository.repository import Repository, Target, format_files
    from quotaform.repository.run import check_cluster
    from quotaform.resolve.index import Effective, Resolved
    from quotaform.resolve.quota_admin import QuotaAdmin

__version__ = "0.1.0"

# A list that type checkers can read: without it, `from quotaform import *` gives them no names.
__all__ = [
    "ANY",
    "AlterResult",
    "AlterRow",
    "Alteration",
    "ClusterOutcome",
    "Described",
    "Effective",
    "Entity",
    "EntityFilter",
    "FilterComponent",
    "Outcome",
    "QuotaAdmin",
    "QuotaformError",
    "Repository",
    "Resolved",
    "Rule",
    "Target",
    "apply",
    "check_cluster",
    "check_principals",
    "describe",
    "drift",
    "explain",
    "format_files",
    "import_quotas",
    "plan",
    "record_usage",
    "resolve",
    "snapshot",
    "top",
    "validate",
]

_HOMES = {
    "model.alteration": ("AlterResult", "AlterRow", "Alteration", "Outcome"),
    "model.entity": ("Entity",),
    "model.errors": ("QuotaformError",),
    "model.filter": ("ANY", "Described", "EntityFilter", "FilterComponent", "Rule"),
    "model.outcome": ("ClusterOutcome",),
    "repository.repository": ("Repository", "Target", "format_files"),
    "repository.run": ("check_cluster",),
    "resolve.index": ("Effective", "Resolved"),
    "resolve.quota_admin": ("QuotaAdmin",),
}
"""The modules of public names; the other names are those of `api`."""
_CALLABLE_ROOMS = ("apply", "drift", "plan", "resolve")
"""The rooms that have the name of a use case."""


class _Room(ModuleType):
    """A package that has the name of a use case, and is that function when it is called.

    `from quotaform import plan` finds the package `quotaform.plan` as soon as one of its modules was imported.
    """

    def __call__(self, *arguments: "Any", **options: "Any") -> "Any":
        return self._use_case(*arguments, **options)

    @property
    def __signature__(self) -> "Signature":
        from inspect import signature

        return signature(self._use_case, eval_str=False)

    @property
    def _use_case(self) -> "Any":
        return getattr(import_module("quotaform.api"), self.__name__.rpartition(".")[2])


class _Package(ModuleType):
    """This package, which makes rooms callable when they are imported."""

    def __setattr__(self, name: str, value: "Any") -> None:
        if name in _CALLABLE_ROOMS and type(value) is ModuleType:
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first used, so that `quotaform --version` imports none of them."""
    if name in _CALLABLE_ROOMS:
        return import_module(f"quotaform.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "api")
    return getattr(import_module(f"quotaform.{home}"), name)
