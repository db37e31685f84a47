"""`quotaform history`, from snapshot files to what changed and who did it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.model.records.validator import gate
from quotaform.report.format import schema_builder
from tests.builder import PRODUCER, REQUEST
from tests.spark import files
from tests.spark.log import messages
from tests.spark.test_usage_curve import usage_rows, usage_table
from tests.waiting import wait_until
from tests.workflow.command import Repository, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

ALICE = Entity(user="alice")


def write_snapshot(path: Path, day: int, quotas: Quotas, cluster: str = "lab") -> None:
    """Write what a cluster held on a day."""
    files.write_snapshot(path, quotas, cluster, f"id-{cluster}", f"2026-11-{day:02}T09:00:00Z")


def with_files(folder: Path) -> Repository:
    """Three days of two clusters in files, one of which is cut, and the receipt of an apply between the days."""
    made = Repository(folder)
    write_snapshot(folder / "taken/lab-1.json", 1, {ALICE: {PRODUCER: 1048576.0, REQUEST: 50.0}})
    write_snapshot(folder / "taken/lab-2.json", 2, {ALICE: {PRODUCER: 2097152.0}})
    write_snapshot(folder / "taken/prod.json", 2, {ALICE: {PRODUCER: 1048576.0}}, "prod")
    (folder / "taken/cut.json").write_text('{"kind": ', encoding="utf-8")
    write_receipt(folder / "receipts", "2026-11-01T20:00:00Z")
    made.config("clusters:\n  lab: {snapshot: taken/lab-2.json}\n  new: {snapshot: taken/prod.json}\n")
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Files alone."""
    return with_files(tmp_path)


@pytest.fixture(scope="module")
def appended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, Result]:
    """A repository with a history of all files, and how it was made."""
    made = with_files(tmp_path_factory.mktemp("appended"))
    return made, made("history", "append", "taken", "--history", "kept", "--receipts", "receipts")


def test_files_are_appended_and_one_that_is_cut_is_named(appended: tuple[Repository, Result]) -> None:
    repository, done = appended
    assert done.code == 3
    assert done.out.splitlines() == [
        "History  kept",
        "  lab   2026-11-01T09:00:00Z  2 values  appended",
        "  lab   2026-11-02T09:00:00Z  1 value  appended",
        "  prod  2026-11-02T09:00:00Z  1 value  appended",
        "",
        "Snapshots: 3 appended, 0 late, 0 known, 1 failed.",
    ]
    assert "taken/cut.json:1:10: error: the file is truncated" in done.err
    again = repository("history", "append", "taken/lab-*.json", "--history", "kept", "--format", "json")
    assert again.code == 0
    require_valid("history-append", again.out)
    assert json.loads(again.out)["summary"] == {"appended": 0, "late": 0, "known": 2, "failed": 0}


def test_the_history_of_an_entity_is_shown_with_who_changed_it_and_drawn_with_its_usage(
    appended: tuple[Repository, Result], spark: SparkSession
) -> None:
    repository, _ = appended
    usage_table(spark, usage_rows(4)).write.parquet(str(repository.path / "usage"))
    outs = ("json=rows.json", "parquet=rows", "html=limits.html")
    files = [word for out in outs for word in ("--out", out)]
    shown = repository("history", "show", "user=alice", "--history", "kept", "--usage", "usage", *files)
    assert shown.code == 0, shown.err
    by_ana = "ana at 2026-11-01T20:00:00Z, plan 00000000, commit 4f2c1d9)"
    assert shown.out.splitlines() == [
        "History  kept   snapshots from 2026-11-01T09:00:00Z to 2026-11-02T09:00:00Z",
        "",
        "lab  user=alice",
        "  producer_byte_rate",
        f"    1 MiB/s   2026-11-01T09:00:00Z to 2026-11-02T09:00:00Z   (ended by {by_ana}",
        f"    2 MiB/s   2026-11-02T09:00:00Z to now   (set by {by_ana}",
        "  request_percentage",
        "    50%   2026-11-01T09:00:00Z to 2026-11-02T09:00:00Z",
        "",
        "prod  user=alice",
        "  producer_byte_rate",
        "    1 MiB/s   2026-11-02T09:00:00Z to now",
    ]
    require_valid("history", repository.read("rows.json"))
    rows = json.loads(repository.read("rows.json"))["rows"]
    ana = {"actor": "ana", "plan_id": f"sha256:{'0' * 64}", "commit": "4f2c1d9", "at": "2026-11-01T20:00:00Z"}
    assert {
        (row["key"], row["value"]): (row["changed_by"], row["ended_by"]) for row in rows if row["cluster"] == "lab"
    } == {
        (PRODUCER, 1048576): (None, ana),
        (PRODUCER, 2097152): (ana, None),
        (REQUEST, 50): (None, None),
    }
    assert list((repository.path / "rows").glob("*.parquet"))
    page = repository.read("limits.html")
    for text in ("user=alice, producer_byte_rate, cluster lab", "1 MiB/s", "2 MiB/s", "50%", "Line: rate, "):
        assert text in page
    assert page.count("<svg ") == page.count("<table>") == 3
    assert "Usage: usage, the highest rate of all brokers" in page


def test_two_times_are_compared(appended: tuple[Repository, Result]) -> None:
    repository, _ = appended
    arguments = ("history", "diff", "--at", "now", "--at", "2026-11-01T12:00:00Z", "--history", "kept")
    changed = repository(*arguments, "--out", "json=diff.json")
    assert changed.out.splitlines()[2:] == [
        "lab   snapshots of 2026-11-01T09:00:00Z and 2026-11-02T09:00:00Z",
        "  ~ user=alice  producer_byte_rate : 1 MiB/s -> 2 MiB/s   (by ana at 2026-11-01T20:00:00Z, plan 00000000, "
        "commit 4f2c1d9)",
        "  - user=alice  request_percentage : 50%   (seen 2026-11-02T09:00:00Z)",
        "",
        "Not compared, since there is no snapshot at or before 2026-11-01T12:00:00Z:",
        "  prod  first snapshot of 2026-11-02T09:00:00Z",
        "",
        "Changes: 0 set, 1 changed, 1 removed, of 1 entity; 1 cluster not compared.",
    ]
    require_valid("history-diff", repository.read("diff.json"))
    document = json.loads(repository.read("diff.json"))
    assert [(each["cluster"], each["compared"]) for each in document["clusters"]] == [("lab", True), ("prod", False)]
    assert {each["cluster"] for each in document["changes"]} == {"lab"}


def test_what_cannot_be_answered_is_one_sentence(appended: tuple[Repository, Result]) -> None:
    repository, _ = appended
    early = repository("history", "diff", "--at", "2026-10-01", "--at", "2026-10-02", "--history", "kept")
    assert (early.code, messages(early)) == (
        1,
        "Error: the history kept cannot be used: it has no snapshot at or before 2026-10-02T00:00:00Z; "
        "its first one is of 2026-11-01T09:00:00Z.\n",
    )
    for arguments, code, message in (
        (("diff", "--at", "7d"), 64, "--at: give two times"),
        (("diff", "--at", "2026-10-01", "--at", "2026-10-01T00:00:00Z"), 64, "are the same time"),
        (("diff", "--at", "yesterday", "--at", "now"), 64, '"yesterday" is not a time'),
        (("show", "alice"), 64, '"alice" is not an address; write for example user=svc-a'),
        (("show", "--cluster", "edge"), 64, "kept has no snapshot of such a cluster"),
        (("show", "--usage", "usage"), 64, "--usage is drawn beside the limits; give --out html=PATH, too"),
        (("show", "--out", "gif=a.gif"), 64, "choose text, json or html"),
        (("show", "--usage", "nowhere/at-all", "--out", "html=none.html"), 3, "there is no such file or directory"),
        (("append", "missing.json"), 64, '"missing.json" is not a file, and no file matches it as a glob'),
        (("append", "taken", "--all"), 64, "leave --all, --cluster and --bootstrap-server out"),
        (("show", "--out", "parquet=taken"), 1, "it exists already; name a new directory"),
    ):
        refused = repository("history", *arguments, "--history", "kept")
        assert refused.code == code, arguments
        assert message in refused.err, arguments
    assert not (repository.path / "none.html").exists()
    nobody = repository("history", "show", "user=nobody", "--history", "kept", "--out", "html=nobody.html")
    assert nobody.code == 0
    assert "No snapshot has user=nobody." in repository.read("nobody.html")
    empty = repository("history", "show", "--history", "elsewhere")
    assert "there is none; make it with quotaform history append, or correct --history." in empty.err


def test_drift_against_a_time_compares_a_cluster_with_what_it_held_then(appended: tuple[Repository, Result]) -> None:
    repository, _ = appended
    arguments = ("drift", "--cluster", "lab", "--history", "kept", "--against")
    drifted = repository(*arguments, "2026-11-01T12:00:00Z")
    assert drifted.code == 2
    assert drifted.out.splitlines()[1:] == [
        "Baseline  history kept at 2026-11-01T09:00:00Z",
        "",
        "  modified   user=alice",
        "      producer_byte_rate : 2 MiB/s on the cluster, 1 MiB/s in the history",
        "      request_percentage : not set on the cluster, 50% in the history",
        "",
        "Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync.",
    ]
    same = repository(*arguments, "now", "--out", "json=drift.json")
    assert (same.code, same.last) == (0, "No drift. 1 entity of the history matches the cluster.")
    require_valid("drift", repository.read("drift.json"))
    base = {"type": "history", "ref": "kept at 2026-11-02T09:00:00Z", "commit": None}
    assert json.loads(repository.read("drift.json"))["baseline"] == base
    unknown = repository("drift", "--cluster", "new", "--history", "kept", "--against", "now")
    assert (unknown.code, "it has no snapshot of this cluster at or before" in unknown.err) == (1, True)
    for more, message in (
        (("--against", "7d"), "--against TIME and --history belong together"),
        (("--against", "7d", "--history", "kept", "--baseline", "main"), "leave out --baseline"),
        (("--against", "soon", "--history", "kept"), '"soon" is not a time'),
    ):
        refused = repository("drift", "--cluster", "lab", *more)
        assert refused.code == 64, more
        assert message in refused.err, more


def test_drift_against_a_time_reports_what_drift_reports_and_nothing_else(repository: Repository) -> None:
    """Entities out of scope counted as drift, and the pinned id did not."""
    old, new = Entity(user="kafka-old"), Entity(user="kafka-new")
    theirs, unknown = Entity(user="theirs"), Entity({"group": "g"})
    then = {ALICE: {PRODUCER: 1.0, "new_key": 1.0}, old: {PRODUCER: 1.0}, theirs: {PRODUCER: 1.0}, unknown: {"k": 1.0}}
    now = {ALICE: {PRODUCER: 1.0, "new_key": 2.0}, new: {PRODUCER: 1.0}, theirs: {PRODUCER: 2.0}, unknown: {"k": 2.0}}
    for name in ("lab", "pinned", "other"):
        write_snapshot(repository.path / f"then/{name}.json", 1, then, name)
        write_snapshot(repository.path / f"now/{name}.json", 2, now, name)
    write_snapshot(repository.path / "now/other.json", 2, now, "another")
    clusters = "".join(
        f"  {name}: {{snapshot: now/{name}.json{more}}}\n"
        for name, more in (("lab", ""), ("pinned", ", cluster_id: pin"), ("other", ""))
    )
    repository.config(f"clusters:\n{clusters}scope: {{exclude: [{{user: 'kafka-*'}}]}}\nroots: [theirs]\n")
    (repository.path / "theirs/quotas.d").mkdir(parents=True)
    (repository.path / "theirs/quotaform.yaml").write_text(f"clusters:\n{clusters}", encoding="utf-8")
    entry = "quotas:\n  - match: {user: theirs}\n    values: {producer_byte_rate: 3}\n"
    (repository.path / "theirs/quotas.d/all.yaml").write_text(entry, encoding="utf-8")
    assert repository("history", "append", "then", "--history", "kept").code == 0
    drifted = repository(
        "drift", "--all", "--history", "kept", "--against", "now", "--out", "json=drift/{cluster}.json"
    )
    found = {name: json.loads(repository.read(f"drift/{name}.json")) for name in ("lab", "pinned", "other")}
    assert (found["lab"]["status"], found["lab"]["entities"]) == ("in-sync", [])
    assert found["lab"]["summary"]["in_sync"] == 1
    assert "is pinned to id pin" in found["pinned"]["findings"][0]["message"]
    assert "in the history it has id-other" in found["other"]["findings"][0]["message"]
    assert [found[name]["status"] for name in ("pinned", "other")] == ["unknown", "unknown"]
    assert drifted.code == 1


@pytest.mark.prove
def test_an_append_that_is_killed_while_it_writes_leaves_the_history_as_it_was(repository: Repository) -> None:
    """Also for readers of that moment: they see what was there."""
    kept = repository.path / "kept"
    repository("history", "append", "taken/lab-1.json", "--history", "kept")
    many = {Entity(user=f"u{number}"): {PRODUCER: 1024.0} for number in range(20_000)}
    write_snapshot(repository.path / "taken/lab-3.json", 3, many)
    running = repository.start("history", "append", "taken/lab-3.json", "--history", "kept", "--master", "local[1]")
    wait_until(lambda: running.is_over or list(kept.glob("_staged-*/rows")), 250)
    running.signal(signal.SIGKILL)
    assert running.end().code == -signal.SIGKILL
    assert [folder.name for folder in kept.glob("append=*")] == ["append=00000001"]
    shown = repository("history", "show", "--history", "kept", "--format", "json")
    assert (shown.code, json.loads(shown.out)["total"]) == (0, 2)
    again = repository("history", "append", "taken/lab-3.json", "--history", "kept")
    assert again.last == "Snapshots: 1 appended, 0 late, 0 known, 0 failed."


def write_receipt(folder: Path, finished_at: str) -> None:
    """Write the receipt of an apply that changed one key."""
    from quotaform.model.quotas import Action
    from quotaform.model.records.field import ClusterRecord
    from quotaform.plan.receipt import EntityResult, ReceiptSource, Result, RowRecord, SavedReceipt, receipt_lines

    folder.mkdir()
    receipt = SavedReceipt(
        plan_id=f"sha256:{'0' * 64}",
        cluster=ClusterRecord(name="lab", id="id-lab"),
        source=ReceiptSource(directory="quotas.d", commit="4f2c1d9", dirty=False),
        applied_by="ana",
        started_at=finished_at,
        finished_at=finished_at,
        results=(
            EntityResult(
                entity=ALICE,
                action=Action.UPDATE,
                result=Result.APPLIED,
                keys=(RowRecord(key=PRODUCER, before=1048576.0, after=2097152.0),),
            ),
        ),
    )
    path = folder / "20261101T200000Z-lab-00000000.json"
    path.write_text("".join(receipt_lines(receipt)), encoding="utf-8")


def require_valid(schema: str, text: str) -> None:
    """Make sure that a document is what its schema says."""
    assert not gate(schema_builder(schema)).refusals(json.loads(text))
