"""`python -m tests.fuzz`: read documents changed at random with every reader, and keep those that show a mistake."""

from __future__ import annotations

import argparse
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from secrets import randbelow
from time import monotonic
from typing import Final

from tests.fuzz import answers, commands, documents, files, usage, words
from tests.fuzz.mutate import mutate
from tests.fuzz.target import Target, examine, kind

TARGETS: Final = {
    target.name: target for module in (files, documents, words, answers, commands, usage) for target in module.TARGETS
}
REGRESSIONS: Final = Path(__file__).with_name("regressions")
"""What was found once: a folder per target, a file per document."""
_AT_ONCE: Final = 500
_MEMORY: Final = 4 << 30


@cache
def corpus_of(target: Target) -> Sequence[bytes]:
    """Return the documents of a target to begin with."""
    return [*target.corpus(), *target.refused]


def document_of(target: Target, seed: str) -> bytes:
    return mutate(Random(f"{seed} {target.name}"), corpus_of(target))


def shrink(target: Target, document: bytes, seconds: float = 20.0) -> bytes:
    """Return a smaller document that shows the same problem."""
    wanted, deadline = kind(examine(target, document) or ""), monotonic() + seconds
    size = max(1, len(document) // 2)
    while size:
        start = 0
        while start < len(document) and monotonic() < deadline:
            smaller = document[:start] + document[start + size :]
            if kind(examine(target, smaller) or "") == wanted:
                document = smaller
            else:
                start += size
        size //= 2
    return document


def keep(target: Target, document: bytes) -> Path:
    """Save a document that `make check` reads from then on."""
    path = REGRESSIONS / target.name / sha256(document).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document)
    return path


def main() -> int:
    """Fuzz, print what was found, and return how the process ends: 1 when anything was."""
    parser = argparse.ArgumentParser(prog="make fuzz FUZZ=", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: 5)")
    parser.add_argument("--count", type=int, help="of documents per target, instead of a time")
    parser.add_argument("--seed", type=int, help="of everything that is random (default: random)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="what to fuzz (repeatable; default: all)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files in an old way
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    seed = randbelow(10**9) if options.seed is None else options.seed
    targets = [TARGETS[name] for name in options.target or TARGETS]
    print(f"Seed {seed}, targets {', '.join(target.name for target in targets)}.", flush=True)
    began = monotonic()
    until = began + (options.minutes * 60 if options.count is None else 1e9)
    count = options.count or sys.maxsize
    done: Counter[str] = Counter()
    kinds: set[tuple[str, str]] = set()
    while monotonic() < until and min(done[each.name] for each in targets) < count:
        for target in targets:
            for number in range(done[target.name], min(count, done[target.name] + _AT_ONCE)):
                if monotonic() > until:
                    break
                document = document_of(target, f"{seed}:{number}")
                problem = examine(target, document)
                done[target.name] += 1
                if problem is not None and (target.name, kind(problem)) not in kinds:
                    kinds.add((target.name, kind(problem)))
                    path = keep(target, shrink(target, document))
                    print(f"{target.name}: {problem}\n  kept in {path}", flush=True)
    for name, total in done.items():
        print(f"{name:16} {total:9,} documents")
    print(f"Seed {seed}: {done.total():,} documents in {monotonic() - began:.0f} s, {len(kinds)} mistakes.")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
