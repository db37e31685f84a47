"""The audit log: a line for each changed key, never shortened, and a file that cannot be opened is refused at once."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from json import loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jsonschema import Draft7Validator
from msgspec.structs import replace

from quotaform.apply.audit import Applier, AuditFile
from quotaform.model.entity import Entity
from quotaform.model.errors import NotApprovedError, QuotaformError
from quotaform.model.finding import Allowance
from quotaform.plan.receipt import Receipt, Result, Run
from tests.builder import CONSUMER, PRODUCER, plan_of, result_of
from tests.loading import load_schema
from tests.scripted_gateway import Clock

ALICE, ODD = Entity(user="alice"), Entity(user="x\n::error::\x1b[31m")
PLAN = plan_of(
    {ALICE: {PRODUCER: 2.0, CONSUMER: 3.0}, ODD: {PRODUCER: 1.0}},
    {ALICE: {PRODUCER: 1.0}},
    allowances=(Allowance("delete", 3),),
)
RECEIPT = Receipt(
    plan=PLAN,
    results=(
        result_of(PLAN.changes[0]),
        result_of(PLAN.changes[1], Result.REFUSED, "no\n" * 9999),
    ),
    applied_by="ann",
    started_at="2026-11-20T09:13:00Z",
    finished_at="2026-11-20T09:13:01Z",
)


def told(run: Run | None) -> list[str]:
    """Return the lines about an apply, one that was interrupted, and one that was refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        log = AuditFile(path, Clock(), Applier("ann", run))
        log.start(PLAN)
        for receipt in (RECEIPT, replace(RECEIPT, interrupted_by="SIGTERM")):
            assert log.finish(receipt) is None
        other = dataclasses.replace(
            PLAN, header=replace(PLAN.header, cluster=replace(PLAN.header.cluster, name="other"))
        )
        with pytest.raises(NotApprovedError), log.refusals([other]):
            raise NotApprovedError
        log.close()
        return path.read_text().splitlines(keepends=True)


LINES = (*told(Run(system="github", url="https://github.example/acme/runs/42", actor="ann")), *told(None))


def read(path: Path) -> list[dict[str, Any]]:
    return [loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_every_line_is_one_ascii_line_that_fits_the_schema(line: str) -> None:
    assert line.isascii()
    assert line.endswith("}\n")
    assert line[:-1].isprintable()
    assert len(line) < 4096
    Draft7Validator(load_schema("audit")).validate(loads(line))


@pytest.mark.parametrize(("event", "field"), [("start", "changes"), ("change", "key"), ("end", "outcome")])
def test_the_schema_asks_for_the_fields_of_each_event(event: str, field: str) -> None:
    document = next(loads(line) for line in LINES if loads(line)["event"] == event)
    del document[field]
    assert not Draft7Validator(load_schema("audit")).is_valid(document)


def test_what_is_there_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"event": "old"}\n{"event": "torn')
    for _ in range(2):
        file = AuditFile(path)
        file.append(["{}\n", "{}\n"])
        file.close()
    assert path.read_text() == '{"event": "old"}\n{"event": "torn\n{}\n{}\n{}\n{}\n'


def test_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    files = [AuditFile(path) for _ in range(4)]

    def write(number: int) -> None:
        files[number].append(f"{number}" * 3000 + "\n" for _ in range(50))
        files[number].close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    lines = path.read_text().splitlines()
    assert len(lines) == 200
    assert set(lines) == {f"{number}" * 3000 for number in range(4)}


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(QuotaformError, match=r"cannot be written: .*; nothing was done: name another file"):
        AuditFile(tmp_path / "fifo")


def test_a_refusal_is_noted_once_and_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path)
    for error in (NotApprovedError(), KeyboardInterrupt()):
        with pytest.raises(type(error)), log.refusals([PLAN]):
            raise error
    log.close()
    assert [(line["event"], line["outcome"], line["reason"]) for line in read(path)] == [
        ("end", "refused", "not approved; nothing was written")
    ]


def test_what_was_done_is_not_refused_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path)
    log.start(PLAN)
    log.finish(RECEIPT)
    with pytest.raises(KeyboardInterrupt), log.refusals([PLAN]):
        raise KeyboardInterrupt
    assert [line["event"] for line in read(path)] == ["start", "change", "change", "change", "end"]
    assert stat.S_ISREG(path.stat().st_mode)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
def test_a_full_disk_stops_an_apply_that_has_not_begun_and_is_told_of_one_that_is_done() -> None:
    log = AuditFile(Path("/dev/full"))
    with pytest.raises(QuotaformError, match="/dev/full cannot be written: No space left on device; nothing was"):
        log.start(PLAN)
    problem = log.finish(RECEIPT)
    assert "what was done is in the receipt" in str(problem)
