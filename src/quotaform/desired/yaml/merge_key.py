"""The merge key `<<` of YAML 1.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.desired.yaml.document import Document
from quotaform.desired.yaml.problem import ProblemReporter
from quotaform.model.location import Position, pack_position

MERGE_KEY: Final = "<<"


def merge(
    document: Document,
    problems: ProblemReporter,
    target: dict[str, Any],
    merged: Iterable[tuple[Any, Any]],
    positions: list[Position] | None,
) -> None:
    """Add what `<<` names to a mapping; what is written out wins, then what is named first.

    Args:
        document: The document of the mapping.
        problems: Where a value that cannot be merged is reported.
        target: The mapping.
        merged: The values of `<<`, each a mapping or a list of mappings, with their marks.
        positions: Where the keys of the mapping are, if that is recorded.
    """
    for value, mark in merged:
        document.hold(value)
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                problems.report_at_mark(
                    rule.BAD_MERGE, "<< must be a mapping or a list of mappings, as in <<: *name", mark
                )
                continue
            where = document.keys.get(id(source)) or [mark_position(mark)] * len(source)
            for (key, item), position in zip(source.items(), where, strict=True):
                if key in target:
                    continue
                target[key] = item
                if positions is not None:
                    positions.append(position)
                document.repeat(source, target, key)


def mark_position(mark: Any) -> Position:
    """Return the position of a mark of the parser."""
    return pack_position(mark.line + 1, mark.column + 1)
