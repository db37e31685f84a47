"""The data source is registered once for each session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quotaform.spark.source import KafkaQuotas, register_source


@dataclass(eq=False)
class Session:
    """A session that notes what is registered."""

    found: list[Any] = field(default_factory=list)

    @property
    def dataSource(self) -> Session:  # noqa: N802 (as PySpark has it)
        return self

    @property
    def register(self) -> Callable[[Any], None]:
        return self.found.append


def test_a_session_is_told_once() -> None:
    """Each command in a notebook made Spark log that it overwrites the data source."""
    notebook, other = Session(), Session()
    for session in (notebook, notebook, other):
        register_source(session)  # type: ignore[arg-type]
    assert notebook.found == other.found == [KafkaQuotas]
