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

    from quotaform.api import apply as apply
    from quotaform.api import check_principals as check_principals
    from quotaform.api import describe as describe
    from quotaform.api import drift as drift
    from quotaform.api import explain as explain
    from quotaform.api import import_quotas as import_quotas
    from quotaform.api import plan as plan
    from quotaform.api import record_usage as record_usage
    from quotaform.api import resolve as resolve
    from quotaform.api import snapshot as snapshot
    from quotaform.api import top as top
    from quotaform.api import validate as validate
    from quotaform.model.alteration import Alteration as Alteration
    from quotaform.model.alteration import AlterResult as AlterResult
    from quotaform.model.alteration import AlterRow as AlterRow
    from quotaform.model.alteration import Outcome as Outcome
    from quotaform.model.entity import Entity as Entity
    from quotaform.model.errors import QuotaformError as QuotaformError
    from quotaform.model.filter import ANY as ANY
    from quotaform.model.filter import Described as Described
    from quotaform.model.filter import EntityFilter as EntityFilter
    from quotaform.model.filter import FilterComponent as FilterComponent
    from quotaform.model.filter import Rule as Rule
    from quotaform.model.outcome import ClusterOutcome as ClusterOutcome
    from quotaform.repository.repository import Repository as Repository
    from quotaform.repository.repository import Target as Target
    from quotaform.repository.repository import format_files as format_files
    from quotaform.repository.run import check_cluster as check_cluster
    from quotaform.resolve.index import Effective as Effective
    from quotaform.resolve.index import Resolved as Resolved
    from quotaform.resolve.quota_admin import QuotaAdmin as QuotaAdmin

__version__ = "0.1.0"

_HOMES = {
    "api": "apply check_principals describe drift explain import_quotas plan record_usage resolve snapshot top"
    " validate",
    "model.alteration": "AlterResult AlterRow Alteration Outcome",
    "model.entity": "Entity",
    "model.errors": "QuotaformError",
    "model.filter": "ANY Described EntityFilter FilterComponent Rule",
    "model.outcome": "ClusterOutcome",
    "repository.repository": "Repository Target format_files",
    "repository.run": "check_cluster",
    "resolve.index": "Effective Resolved",
    "resolve.quota_admin": "QuotaAdmin",
}
"""The modules of public names."""
__all__ = sorted(" ".join(_HOMES.values()).split())
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
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"quotaform.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
