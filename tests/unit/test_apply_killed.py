"""An apply that is killed leaves its way back, whenever that happens.

One that was killed just after its write left no receipt: the repeat's receipt called everything `already-applied`, and
nothing could be put back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from json import loads
from pathlib import Path
from typing import Any, Final

import pytest

from quotaform.apply.lock import cluster_lock
from quotaform.cli.main import run
from quotaform.cluster.gateway import BeforeSend, do_nothing
from quotaform.model.alteration import Alteration, AlterRow
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.plan.receipt_file import load_receipt_file
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway

ALICE, BOB, CAROL, DAVE = (Entity(user=name) for name in ("alice", "bob", "carol", "dave"))
BEFORE: Final[Quotas] = {ALICE: {PRODUCER: 1.0}, DAVE: {PRODUCER: 7.0}}
AFTER: Final[Quotas] = {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0}, CAROL: {PRODUCER: 4.0}}
ALLOWED: Final = [f"--allow={rule}" for rule in ("delete=9", "to-unlimited", "change-factor", "update=9")]
NOTICE: Final = "Warning: the apply to cluster lab of "


class Killed(BaseException):
    """What nothing catches, as nothing catches SIGKILL."""


class Gateway(ScriptedGateway):
    """A cluster that takes one change per request; the process is killed before the one of this number."""

    killed_before: int | None = None

    def __init__(self, quotas: Quotas) -> None:
        super().__init__(quotas, chunk_size=1)

    def alter_chunks(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, before_send: BeforeSend = do_nothing
    ) -> Iterator[tuple[AlterRow, ...]]:
        rows = super().alter_chunks(alterations, validate_only=validate_only, before_send=before_send)
        while True:
            if not validate_only and len(self.sent) == self.killed_before:
                raise Killed
            if (chunk := next(rows, None)) is None:
                return
            yield chunk


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """A repository in the current folder that declares `AFTER`, and its cluster, which holds `BEFORE`."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['lab:9092']}}\n")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / "all.yaml").write_text(
        "quotas:\n  - {match: {user: dave}, state: absent}\n"
        + "".join(
            f"  - {{match: {{user: {entity.parts[0][1]}}}, values: {{{PRODUCER}: {values[PRODUCER]:.0f}}}}}\n"
            for entity, values in AFTER.items()
        )
    )
    made = Gateway(dict(BEFORE))
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: made)
    monkeypatch.chdir(tmp_path)
    return made


def apply(*arguments: str) -> int:
    return run(["apply", "--auto-approve", *ALLOWED, *arguments])


def receipts() -> list[Path]:
    return sorted(Path(".quotaform/receipts").glob("*.json"))


def before_the_first_request(gateway: Gateway, _: pytest.MonkeyPatch) -> None:
    gateway.killed_before = 0


def between_two_requests(gateway: Gateway, _: pytest.MonkeyPatch) -> None:
    gateway.killed_before = 2


def before_completion(_: Gateway, patch: pytest.MonkeyPatch) -> None:
    def kill(*_: object) -> Any:
        raise Killed

    patch.setattr("quotaform.apply.ledger.Ledger.keep", kill)


def before_the_new_receipt_has_the_name_of_the_first(_: Gateway, patch: pytest.MonkeyPatch) -> None:
    def kill(*_: object) -> Any:
        raise Killed

    patch.setattr(Path, "replace", kill)


MOMENTS: Final = [
    before_the_first_request,
    between_two_requests,
    before_completion,
    before_the_new_receipt_has_the_name_of_the_first,
]


def kill_an_apply(gateway: Gateway, moment: Callable[[Gateway, pytest.MonkeyPatch], None]) -> Path:
    """Return the receipt that it leaves."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        moment(gateway, patch)
        apply()
    gateway.killed_before = None
    (path,) = receipts()
    return path


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_apply_is_reverted_by_the_receipt_with_which_it_began(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], moment: Callable[[Gateway, pytest.MonkeyPatch], None]
) -> None:
    path = kill_an_apply(gateway, moment)
    changed = {entity for entity in BEFORE.keys() | AFTER if gateway.quotas.get(entity) != BEFORE.get(entity)}
    assert len(changed) == {"before_the_first_request": 0, "between_two_requests": 2}.get(moment.__name__, 4)
    receipt = load_receipt_file(path)
    assert (receipt.is_started, receipt.is_complete) == (True, False)
    assert changed <= {item.entity for item in receipt.results}

    for command in (["plan"], ["drift", "--exit-zero"]):
        assert run(command) in (0, 4)
        told = capsys.readouterr().err
        assert NOTICE in told
        assert f"undo what it changed: quotaform plan --revert {path}\n" in told

    assert run(["plan", "--revert", str(path), "--out", "revert.json", *ALLOWED]) == 0
    assert NOTICE not in capsys.readouterr().err  # It told to do what was being done.
    assert run(["apply", "revert.json"]) == 0
    assert capsys.readouterr().err.count(NOTICE) == 1
    assert gateway.quotas == BEFORE
    assert run(["plan"]) in (0, 4)
    assert NOTICE not in capsys.readouterr().err


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_apply_that_was_completed_later_is_reverted_as_well(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], moment: Callable[[Gateway, pytest.MonkeyPatch], None]
) -> None:
    path = kill_an_apply(gateway, moment)
    assert apply() == 0
    assert NOTICE in capsys.readouterr().err
    assert gateway.quotas == AFTER
    assert run(["plan"]) == 0
    assert NOTICE not in capsys.readouterr().err
    assert run(["plan", "--revert", str(path), "--out", "revert.json", *ALLOWED]) == 0
    assert run(["apply", "revert.json"]) == 0
    assert gateway.quotas == BEFORE


def test_a_receipt_that_was_completed_just_before_the_end_is_not_warned_of(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr("quotaform.apply.ledger.note_end", lambda *_: (_ for _ in ()).throw(Killed))
        apply()
    (path,) = receipts()
    assert loads(path.read_text())["complete"]
    assert run(["plan"]) == 0
    assert NOTICE not in capsys.readouterr().err


def test_an_apply_whose_receipt_cannot_be_written_sends_nothing(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quotaform.system.files.os.fsync", full)
    assert apply() == 1
    assert "cannot be written: No space left on device; nothing was written to the cluster" in capsys.readouterr().err
    assert gateway.sent == []
    assert receipts() == []


def test_applies_that_send_nothing_do_not_hide_a_started_receipt(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each added a line to a list of which only the newest twenty were read, and after 64 KiB none of them."""
    monkeypatch.setattr("quotaform.apply.run._SETTLE_PAUSE", 0)
    path = kill_an_apply(gateway, between_two_requests)
    assert run(["plan", "--out", "stale.json", *ALLOWED]) == 0
    gateway.quotas = {**gateway.quotas, CAROL: {PRODUCER: 9.0}}
    for number in range(25):
        assert run(["apply", "stale.json", "--receipt", f"{number}{'x' * 200}.json"]) == 5
    (lock,) = Path(".quotaform/locks").iterdir()
    assert len(lock.read_bytes()) < 1000
    capsys.readouterr()
    run(["plan"])
    assert f"quotaform plan --revert {path}\n" in capsys.readouterr().err


def test_an_apply_of_other_entities_does_not_settle_a_started_receipt(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any apply that was completed did, also of one entity (`--select`)."""
    kill_an_apply(gateway, between_two_requests)
    assert apply("--select", "user=carol") == 0
    assert apply("--select", "user=alice") == 0
    capsys.readouterr()
    run(["plan"])
    assert NOTICE in capsys.readouterr().err
    assert apply("--exclude", "user=eve") == 0
    capsys.readouterr()
    run(["plan"])
    assert NOTICE not in capsys.readouterr().err


def test_the_revert_of_another_apply_does_not_settle_a_started_receipt(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply("--select", "user=bob") == 0
    (other,) = receipts()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr(gateway, "killed_before", len(gateway.sent))
        apply()
    assert run(["plan", "--revert", str(other), "--out", "revert.json", *ALLOWED]) == 0
    assert run(["apply", "revert.json"]) == 0
    capsys.readouterr()
    run(["plan"])
    assert NOTICE in capsys.readouterr().err


def test_an_apply_that_is_running_is_not_warned_of(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    kill_an_apply(gateway, between_two_requests)
    with cluster_lock(Path(), "lab", gateway.cluster_id()):
        run(["plan"])
    assert NOTICE not in capsys.readouterr().err
    run(["plan"])
    assert NOTICE in capsys.readouterr().err


def test_what_a_repository_lists_is_read_with_suspicion(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    path = kill_an_apply(gateway, between_two_requests)
    (lock,) = Path(".quotaform/locks").iterdir()
    os.mkfifo("pipe")
    Path("other").mkdir()
    Path("other/link").symlink_to(path.absolute())
    lock.write_text(
        f"{path.absolute()}\n/dev/stdin\n{Path('pipe').absolute()}\n{Path('other/link').absolute()}\n\n\0\n"
    )
    run(["plan"])
    assert capsys.readouterr().err.endswith(f"quotaform plan --revert {path}\n")
    lock.write_bytes(b"\xff\n" * 50_000)
    run(["plan"])
    assert NOTICE not in capsys.readouterr().err


def test_a_started_receipt_says_nothing_that_was_agreed(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    path = kill_an_apply(gateway, between_two_requests)
    assert run(["drift", "--baseline", str(path)]) == 1
    assert "it is the receipt of an apply that did not finish" in capsys.readouterr().err


@pytest.mark.usefixtures("gateway")
def test_a_pipe_gets_the_receipt_of_what_was_done_only() -> None:
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(Path("pipe").read_text)
        assert apply("--receipt", "pipe") == 0
        assert loads(read.result(timeout=10))["complete"]
