"""`python -m tests.fuzz`: read documents changed at random with every reader, and keep those that show a mistake."""

from __future__ import annotations

import argparse
import resource
import sys
import warnings
from collections import Counter
from secrets import randbelow
from time import monotonic
from typing import Final

from tests.fuzz.run import TARGETS, fuzz, keep, shrink

_AT_ONCE: Final = 500
_MEMORY: Final = 2 << 30


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
    done: Counter[str] = Counter()
    kinds: set[tuple[str, str]] = set()
    while monotonic() < until and (options.count is None or min(done[each.name] for each in targets) < options.count):
        for target in targets:
            left = _AT_ONCE if options.count is None else min(_AT_ONCE, options.count - done[target.name])
            number, found = fuzz(target, seed, count=left, until=until, start=done[target.name])
            done[target.name] += number
            for problem, document in found.items():
                kind = target.name, problem.partition(":")[0]
                if kind not in kinds:
                    kinds.add(kind)
                    path = keep(target, shrink(target, document))
                    print(f"{target.name}: {problem}\n  kept in {path}", flush=True)
    for name, number in done.items():
        print(f"{name:12} {number:9,} documents")
    print(f"Seed {seed}: {done.total():,} documents in {monotonic() - began:.0f} s, {len(kinds)} mistakes.")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
