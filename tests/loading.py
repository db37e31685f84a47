"""What texts say, as if they were files of quotas.d."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from quotaform.desired.config import Config
from quotaform.desired.loader import LoadedFiles, Profiles
from quotaform.desired.tree import Layout, SourceFile, Tree
from quotaform.model.finding import Finding
from quotaform.model.quotas import Desired
from quotaform.model.records.schema import make_schema
from quotaform.model.scope import FULL_SCOPE, Scope
from quotaform.report.format import schema_builder
from quotaform.repository.repository import Repository


class Texts(Layout):
    """Sources that are in no tree, so there is nothing wrong with where they are."""

    def __init__(self, sources: Iterable[SourceFile]) -> None:
        super().__init__(Tree(name="quotas.d"))
        self.texts = list(sources)

    def layer(self, name: str | None) -> list[SourceFile]:
        return [source for source in self.texts if source.layer == name]

    def problems(self, cluster: str | None) -> list[Finding]:
        return []


def load_config(path: Path) -> Config:
    return Repository(directory=path.parent / "quotas.d", config_path=path, needs_config=True).config()


def files_of(sources: Iterable[SourceFile], profiles: Profiles, today: date, scope: Scope = FULL_SCOPE) -> LoadedFiles:
    return LoadedFiles(Texts(sources), profiles, today, scope)


def load(sources: Iterable[SourceFile], profiles: Profiles, today: date, scope: Scope = FULL_SCOPE) -> Desired:
    """What common files and those of at most one cluster say."""
    texts = list(sources)
    cluster = next((source.layer for source in texts if source.layer), None)
    return files_of(texts, profiles, today, scope).desired(cluster)


def check(
    sources: Iterable[SourceFile], profiles: Profiles, today: date, scope: Scope = FULL_SCOPE
) -> tuple[Desired, list[Finding]]:
    """What can be made of common files and those of at most one cluster, and what is wrong with them."""
    texts = list(sources)
    cluster = next((source.layer for source in texts if source.layer), None)
    return files_of(texts, profiles, today, scope).check(cluster)


def load_schema(name: str) -> dict[str, Any]:
    """Return a JSON Schema by its name, as `quotaform schema NAME` prints it."""
    return make_schema(schema_builder(name))
