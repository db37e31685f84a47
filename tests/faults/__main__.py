"""`python -m tests.faults`: rounds of faults during an apply, on three brokers, judged by what the brokers hold."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from secrets import randbelow

from tests.broker import SHORT_SESSIONS
from tests.faults.cluster_round import Arena
from tests.faults.scenario import KINDS, make_scenario
from tests.faulty_sandbox import FaultySandbox


def main() -> int:
    """Play rounds, print one line for each, and return how the process ends: 1 when one failed."""
    parser = argparse.ArgumentParser(prog="make faults FAULTS=", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, help="of the first round; each next one has the next (default: random)")
    parser.add_argument("--kind", choices=KINDS, help="of every round (default: one after the other)")
    parser.add_argument("--size", type=int, help="how many entities are declared (default: 1 to 6,000)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files in an old way
    seed = randbelow(10**6) if options.seed is None else options.seed
    codes: Counter[tuple[str, int]] = Counter()
    failed: list[int] = []
    slowest = 0.0
    with FaultySandbox(brokers=3, properties=SHORT_SESSIONS) as kafka:
        arena = Arena(kafka)
        for scenario in (make_scenario(seed + number, options.kind, options.size) for number in range(options.rounds)):
            print(scenario, end=": ", flush=True)
            verdict = arena.play(scenario)
            missed = "" if verdict.was_reached else ", over before the fault"
            print(f"exit {verdict.code} after {verdict.seconds:.1f} s, {verdict.reverted} reverted{missed}", flush=True)
            for problem in verdict.problems:
                print(f"  FAILED: {problem}", flush=True)
            if verdict.problems:
                failed.append(scenario.seed)
            slowest = max(slowest, verdict.seconds)
            codes[scenario.kind, verdict.code] += 1
        arena.close()
    for (kind, code), count in sorted(codes.items()):
        print(f"{kind:18} exit {code:4}: {count}")
    print(f"{options.rounds} rounds from seed {seed}, the slowest apply took {slowest:.1f} s.")
    if failed:
        print(f"{len(failed)} failed; to repeat one: make faults FAULTS='--rounds 1 --seed {failed[0]}'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
