"""Fuzzed: whole command lines, in a repository whose cluster is a snapshot, so that no broker is needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from quotaform.cli import main
from quotaform.cli.client_quotas import run as client_quotas
from quotaform.cluster.gateway import dump_snapshot
from quotaform.model.errors import ExitCode
from quotaform.model.quotas import Snapshot
from tests.fuzz.target import CANARY, Target, kept, scratch, text_of
from tests.golden.example import ACTUAL
from tests.workflow.command import call

_FILES: Final = {
    "quotaform.yaml": "clusters: {lab: {snapshot: lab.json}, other: {snapshot: lab.json}}\n"
    "scope: {exclude: [{user: 'kafka-*'}]}\n",
    "quotas.d/all.yaml": "quotas:\n  - match: {user: svc-orders}\n    values: {producer_byte_rate: 20MiB/s}\n"
    "  - match: {user: [a, 'CN=a b']}\n    values: {request_percentage: 50%}\n",
    "requests.csv": "user,client_id\nalice,app\nsvc-orders,\n",
    "lab.json": dump_snapshot(
        Snapshot(cluster_name="lab", cluster_id="3JxQ0v7pT2a", captured_at="2026-11-20T09:12:44Z", quotas=ACTUAL)
    ),
    "client.properties": f"sasl.password={CANARY}\n",
}
_SCRIPT: Final = "kafka-client-quotas"
_CODES_OF_A_SCRIPT: Final = frozenset({0, 1})


@cache
def _folder() -> Path:
    folder = scratch()
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    made = call(main.run, "plan", "--cluster", "lab", "--allow", "to-unlimited", "--out", "plan.json", cwd=folder)
    assert made.code == ExitCode.DONE, made
    return folder


def _run(document: bytes) -> None:
    """Run a command line whose arguments are lines."""
    words = text_of(document).split("\n")
    if words[0] == _SCRIPT:
        done, codes = call(client_quotas, *words[1:], cwd=_folder()), _CODES_OF_A_SCRIPT
    else:
        done, codes = call(main.run, *words, cwd=_folder()), frozenset(ExitCode) - {ExitCode.PARTIAL}
    assert done.code in codes, done
    assert CANARY not in done.said, "shows a secret"
    lines = done.said.split("\n")
    assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()][:2]
    assert done.code in (0, 2) or done.said.strip(), "it failed without a word"


TARGETS: Final = (Target("command", _run, (), lambda: [line.replace(b" ", b"\n") for line in kept("command")]),)
