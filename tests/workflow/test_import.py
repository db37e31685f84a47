"""`quotaform import` of all that a broker can hold; `resolve` of many requests."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_values
from tests.builder import MIB
from tests.kafka.test_interop import SHAPES
from tests.property.test_desired_laws import ODD_NAMES
from tests.workflow.command import QUOTAFORM, Cluster, Repository, environment

pytestmark = pytest.mark.workflow


INEXPRESSIBLE: Quotas = {
    Entity(user="fraction"): {"consumer_byte_rate": 1024.0000005, "producer_byte_rate": MIB},
    Entity(user="tiny"): {"producer_byte_rate": 1e-7},
    Entity(user="nan"): {"request_percentage": math.nan},
    Entity(user="inf"): {"controller_mutation_rate": math.inf},
    Entity(ip="10.9.9.9"): {"connection_creation_rate": math.nan},
    Entity(ip="localhost"): {"connection_creation_rate": 5.0},
    Entity(ip="::ffff:10.1.2.3"): {"connection_creation_rate": 5.0},
    Entity(ip="10.1"): {"connection_creation_rate": 5.0},
    Entity(ip="ABCD::EF"): {"connection_creation_rate": 5.0},
}


def assert_same(one: Quotas, other: Quotas) -> None:
    assert one.keys() == other.keys()
    assert [entity for entity, values in one.items() if not same_values(values, other[entity])] == []


@pytest.fixture
def everything(cluster: Cluster) -> Quotas:
    """A cluster that holds everything that a broker can hold; returns what that is."""
    quotas = {**SHAPES, **INEXPRESSIBLE}
    for name in ODD_NAMES:
        quotas[Entity(user=name)] = {"producer_byte_rate": MIB}
        quotas[Entity(client_id=name)] = {"producer_byte_rate": 2 * MIB}
        quotas[Entity(user=name, client_id=name)] = {"producer_byte_rate": 3 * MIB}
    cluster.alter(quotas)
    assert_same(cluster.read(), quotas)
    return quotas


def test_after_an_import_of_anything_the_plan_is_empty(
    repository: Repository, cluster: Cluster, everything: Quotas
) -> None:
    done = repository("import")
    assert (done.code, done.err) == (0, "")
    expressible = len(everything) - len(INEXPRESSIBLE)
    assert done.last == f"Imported {expressible} entities."
    assert f"Not imported: {len(INEXPRESSIBLE)} that files cannot represent." in done.out
    assert "\n::" not in done.out, "no name forges a workflow command"
    assert "\x1b" not in done.out

    valid = repository("validate")
    assert valid.code == 0, valid.out
    assert f"{expressible} entities for lab" in valid.last
    planned = repository("plan", "--detailed-exitcode")
    assert planned.code == 0, planned.out
    undeclared = f"{len(INEXPRESSIBLE)} undeclared entities in scope stay as they are."
    assert planned.last == f"No changes. Your infrastructure matches the configuration. {undeclared}"
    assert all(f"{entity.address}: " in planned.out for entity in INEXPRESSIBLE)

    assert repository("apply", "--auto-approve").code == 0
    assert_same(cluster.read(), everything)


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
