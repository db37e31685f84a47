"""`quotaform resolve` of many requests: what it needs does not grow with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.workflow.command import QUOTAFORM, Repository, environment

pytestmark = pytest.mark.workflow

SNAPSHOT = """\
{{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {{"name": "lab", "id": "x"}}, "captured_at": "",
"quotas": [{}]}}
"""


MEASURE = """
import resource, subprocess, sys
with open("out.csv", "w") as out:
    subprocess.run(sys.argv[1:], stdout=out, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command below a small process: the peak of a process includes that of the one that it was forked from."""


def peak(repository: Repository, name: str) -> int:
    """Return how many bytes of memory the command needs at most for the requests of a file."""
    options = ("--snapshot", "lab.json", "--format", "csv", "--key", "producer_byte_rate", "--from", name)
    measure = [sys.executable, "-c", MEASURE, QUOTAFORM, "resolve", *options]
    printed = subprocess.check_output(measure, cwd=repository.path, env=environment(), timeout=120)
    return int(printed) * (1 if sys.platform == "darwin" else 1024)


def test_a_hundred_thousand_requests_take_no_memory(offline: Repository) -> None:
    entry = '{{"entity": {{"user": "u{}"}}, "values": {{"producer_byte_rate": 1}}}}'
    offline.write("lab.json", SNAPSHOT.format(",".join(entry.format(number) for number in range(1000))))
    offline.write("few.csv", "user,client_id\nu1,c1\n")
    offline.write("many.csv", "user,client_id\n" + "".join(f"u{n % 2000},c{n}\n" for n in range(100_000)))
    few = peak(offline, "few.csv")
    assert peak(offline, "many.csv") - few < 40_000 * 1024
    assert offline.read("out.csv").count("\n") == 100_001
