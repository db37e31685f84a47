"""Which tests share a worker of pytest-xdist: those that share what takes long to start."""

from __future__ import annotations

from typing import Final

ONE_WORKER: Final = (
    "tests/faults/test_rounds.py",
    "tests/kafka/test_enforcement.py",
    "tests/spark/test_blast_radius.py",
    "tests/spark/test_apply.py",
    "tests/spark/test_broker.py",
    "tests/spark/test_command.py::test_a_broker_that_is_down",
    "tests/spark/test_connect.py",
    "tests/spark/test_demo.py",
    "tests/spark/test_fleet.py",
    "tests/spark/test_history_append.py",
    "tests/spark/test_history_command.py",
    "tests/spark/test_history_table.py",
    "tests/spark/test_kept_rows.py",
    "tests/spark/test_places.py",
    "tests/spark/test_plan.py",
    "tests/spark/test_principals.py",
    "tests/spark/test_resolve_command.py",
    "tests/spark/test_resolved.py",
    "tests/spark/test_session.py",
    "tests/spark/test_sink.py",
    "tests/spark/test_source.py",
    "tests/spark/test_standalone.py",
    "tests/spark/test_tables.py",
    "tests/spark/test_usage_bucket.py",
    "tests/spark/test_usage_headroom.py",
    "tests/spark/test_usage_headroom_command.py",
    "tests/spark/test_usage_ingest.py",
    "tests/spark/test_usage_instance.py",
    "tests/spark/test_usage_places.py",
    "tests/spark/test_usage_plot.py",
    "tests/spark/test_usage_record.py",
    "tests/spark/test_usage_recommend.py",
    "tests/spark/test_usage_seen.py",
    "tests/spark/test_usage_stream.py",
    "tests/spark/test_usage_stream_end.py",
    "tests/spark/test_usage_backtest.py",
    "tests/spark/test_usage_backtest_broker.py",
    "tests/spark/test_usage_table.py",
)
"""How the ids of these tests begin; those of a folder run on one worker, and every other test on any."""


def scope_of(nodeid: str) -> str:
    """Return what is scheduled as a whole: a folder's tests of `ONE_WORKER`, or the one test.

    >>> scope_of("tests/spark/test_plan.py::test_a"), scope_of("tests/unit/test_plan.py::test_a")
    ('tests/spark', 'tests/unit/test_plan.py::test_a')
    """
    return nodeid.partition("::")[0].rpartition("/")[0] if nodeid.startswith(ONE_WORKER) else nodeid
