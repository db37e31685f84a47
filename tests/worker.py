"""Which tests share a worker of pytest-xdist: those that share what takes long to start."""

from __future__ import annotations

from typing import Final

TOGETHER: Final = {
    **dict.fromkeys(
        [f"tests/spark/test_{name}.py" for name in ("apply", "demo", "places")],
        "a standalone cluster and a Connect server",
    ),
    **dict.fromkeys(["tests/faults/test_rounds.py", "tests/kafka/test_broker_config.py"], "three brokers"),
    **dict.fromkeys([f"tests/kafka/test_{name}.py" for name in ("scram", "stores")], "a secured broker"),
    "tests/kafka/test_enforcement.py": "traffic",
    "tests/kafka/test_oldest.py": "the oldest broker",
    **dict.fromkeys([f"tests/kafka/test_{name}.py" for name in ("doors", "kerberos")], "every mechanism"),
}
"""Files whose tests run on one worker, and what they share there."""


def scope_of(nodeid: str) -> str:
    """Return what is scheduled as a whole: what `TOGETHER` says, a file that has a Spark session, or the one test.

    Each worker has a session of its own, so that all of them run the files on Spark.

    >>> scope_of("tests/spark/test_fleet.py::test_a"), scope_of("tests/unit/test_plan.py::test_a")
    ('tests/spark/test_fleet.py', 'tests/unit/test_plan.py::test_a')
    """
    file = nodeid.partition("::")[0]
    return TOGETHER.get(file, file if file.startswith("tests/spark/") else nodeid)
