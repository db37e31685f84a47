"""Proposals as changes of quota files: golden files with the files, what is proposed, and what the files are then.

A case begins with `===` and what it shows; `@` begins a file, the proposals and what the cluster holds. What is behind
`=>` is the result. `make golden` writes what it is now.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Final

from quotaform.model.entity import parse_address
from quotaform.model.quotas import Values
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.quota_edit import Changed, edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Action, Recommendation
from tests.golden.conftest import FOLDER, Golden

DAY: Final = date(2026, 11, 22)
REASONS: Final = {True: "not used for 30 days", False: "p99 of 14 days 8.2 MiB/s x 1.5"}


def proposal(line: str) -> Recommendation:
    """A proposal, written as `cluster address key before -> after`."""
    place, _, after = line.rpartition(" -> ")
    cluster, rest = place.split(" ", 1)
    address, key, before = rest.rsplit(" ", 2)
    values = [None if value == "-" else float(value) for value in (before, after)]
    action = Action.DELETE if values[1] is None else Action.CREATE if values[0] is None else Action.UPDATE
    return Recommendation(
        cluster=cluster,
        entity=parse_address(address),
        key=key,
        action=action,
        before=values[0],
        after=values[1],
        reason=REASONS[values[1] is None],
    )


def edited(case: str, folder: Path) -> str:
    """What becomes of the files of a case: those that change, and what they don't follow."""
    parts = {name: text for name, _, text in (part.partition("\n") for part in case.split("@ ")[1:])}
    proposals = [proposal(line) for line in parts.pop("proposals").splitlines()]
    held: dict[str, float] = {}
    for line in parts.pop("held", "").splitlines():
        key, value = line.split()
        held[key] = float(value)
    live: dict[Changed, Values] = {(each.cluster, each.entity): held for each in proposals}
    (folder / "quotas.d").mkdir(parents=True)
    for name, text in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    repository = Repository.at(folder / "quotas.d", None)
    found = edit_quotas(repository, repository.config(), proposals, live, DAY)
    write_quotas(found)
    lines = []
    for file in found.files:
        lines += [f"@ {file.path.relative_to(folder)}", *file.path.read_text(encoding="utf-8").splitlines()]
    for left in found.unwritten:
        reason = left.reason.replace(f"{folder}/", "")
        lines.append(f"! {left.cluster} {left.address} {left.key}: {reason}")
    return "".join(f"=> {line}".rstrip() + "\n" for line in lines)


def test_files_follow_proposals_and_nothing_else_changes(golden: Golden, tmp_path: Path) -> None:
    head, *cases = (FOLDER / "quota-edit.txt").read_text(encoding="utf-8").split("===")
    found = head
    for number, case in enumerate(cases):
        given = case.partition("\n=>")[0] + "\n"
        found += f"==={given}{edited(given, tmp_path / str(number))}\n"
    golden("quota-edit.txt", found.rstrip("\n") + "\n")
