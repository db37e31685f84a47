"""Running targets: many documents of each, and what was found made small and kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from tests.fuzz import alerting, answers, client, commands, documents, files, http, usage, words
from tests.fuzz.mutate import mutate
from tests.fuzz.target import Target, examine, kind

TARGETS: Final = {
    target.name: target
    for module in (files, documents, client, words, answers, http, alerting, commands, usage)
    for target in module.TARGETS
}
REGRESSIONS: Final = Path(__file__).with_name("regressions")
"""What was found once: a folder per target, a file per document."""


@cache
def corpus_of(target: Target) -> Sequence[bytes]:
    """Return the documents of a target to begin with."""
    return [*target.corpus(), *target.refused]


def document_of(target: Target, seed: str) -> bytes:
    """Return the document of a seed."""
    return mutate(Random(f"{seed} {target.name}"), corpus_of(target))


def fuzz(target: Target, seed: int, *, count: int, until: float, start: int = 0) -> tuple[int, dict[str, bytes]]:
    """Read documents until there were enough of them, or time is up.

    Returns:
        How many were read, and a document for each problem.
    """
    found: dict[str, bytes] = {}
    kinds: set[str] = set()
    number = 0
    while number < count and monotonic() < until:
        document = document_of(target, f"{seed}:{start + number}")
        problem = examine(target, document)
        number += 1
        if problem is not None and kind(problem) not in kinds:
            kinds.add(kind(problem))
            found[problem] = document
    return number, found


def shrink(target: Target, document: bytes, seconds: float = 20.0) -> bytes:
    """Return a smaller document that shows the same problem."""
    problem = examine(target, document)
    if problem is None:
        return document
    wanted, deadline = kind(problem), monotonic() + seconds
    size = max(1, len(document) // 2)
    while size:
        start = 0
        while start < len(document) and monotonic() < deadline:
            smaller = document[:start] + document[start + size :]
            again = examine(target, smaller)
            if again is not None and kind(again) == wanted:
                document = smaller
            else:
                start += size
        size //= 2
    return document


def keep(target: Target, document: bytes) -> Path:
    """Save a document that `make check` reads from then on."""
    folder = REGRESSIONS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / sha256(document).hexdigest()[:12]
    path.write_bytes(document)
    return path
