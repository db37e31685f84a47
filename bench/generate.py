#!/usr/bin/env python3
"""Write a repository of realistic quotas, and the same quotas as JSON for the floors.

Of 100 entities 60 are users, 24 (user, client) pairs, 10 (user, default client), 5 clients, and one more user; each has
two keys. The first two are `user=<default>` and `client-id=<default>`. 50 entities make a file of quotas.d. The same
numbers give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

PER_FILE = 50
TEAMS = ("payments", "search", "orders", "billing", "fraud", "catalog", "mobile", "etl")
MIB = 2**20
SHAPES = ("user",) * 60 + ("pair",) * 24 + ("user-default",) * 10 + ("client",) * 5 + ("user",)
STRIDE = 37
"""Coprime to the number of shapes, so that every file holds a mixture."""

Quota = dict[str, Any]


def quotas(count: int, *, drift_percent: int = 0) -> list[Quota]:
    """Return `count` quotas as `{"entity": {type: name or None}, "values": {key: value}, "team": name}`.

    Args:
        count: How many entities.
        drift_percent: How many percent of them have another producer_byte_rate than without drift.
    """
    choose = random.Random(546)
    result: list[Quota] = [
        {"entity": {"user": None}, "values": _rates(1), "team": "platform"},
        {"entity": {"client-id": None}, "values": _rates(2), "team": "platform"},
    ]
    for number in range(count - len(result)):
        team = TEAMS[number % len(TEAMS)]
        rate = choose.choice((1, 2, 5, 10, 20, 50))
        values = _rates(rate)
        if number % 5 == 0:
            values = {"producer_byte_rate": values["producer_byte_rate"], "request_percentage": 25.0 * rate}
        result.append({"entity": _entity(number, team), "values": values, "team": team})
    if drift_percent:
        for quota in result[50 :: 100 // drift_percent]:
            quota["values"]["producer_byte_rate"] += MIB
    return result[:count]


def _rates(mebibytes: int) -> dict[str, float]:
    return {"producer_byte_rate": float(mebibytes * MIB), "consumer_byte_rate": float(2 * mebibytes * MIB)}


def _entity(number: int, team: str) -> dict[str, str | None]:
    user = f"svc-{team}-{number:06d}"
    if number % 20 == 7:
        user = f"CN={user},OU={team},O=Example Corp"
    match SHAPES[number * STRIDE % len(SHAPES)]:
        case "pair":
            return {"user": user, "client-id": f"app-{team}-{number % 97:02d}"}
        case "user-default":
            return {"user": user, "client-id": None}
        case "client":
            return {"client-id": f"app-{team}-{number:06d}"}
        case _:
            return {"user": user}


def _spell_name(name: str | None) -> str:
    if name is None:
        return "<default>"
    return json.dumps(name) if "," in name else name


def _spell_value(key: str, value: float) -> str:
    return f"{value:.0f}%" if key == "request_percentage" else f"{value / MIB:.0f}MiB/s"


def _entry(quota: Quota) -> str:
    match = ", ".join(f"{kind}: {_spell_name(name)}" for kind, name in quota["entity"].items())
    values = "".join(f"      {key}: {_spell_value(key, value)}\n" for key, value in quota["values"].items())
    return f"  - match: {{{match}}}\n    values:\n{values}    owner: team-{quota['team']}\n"


def write(directory: Path, wanted: list[Quota]) -> None:
    """Write `quotas.d/*.yaml` and `quotas.json` into a directory."""
    files = directory / "quotas.d"
    files.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(wanted), PER_FILE):
        text = "quotas:\n" + "".join(map(_entry, wanted[start : start + PER_FILE]))
        (files / f"quotas-{start // PER_FILE:05d}.yaml").write_text(text, encoding="utf-8")
    plain = [{"entity": quota["entity"], "values": quota["values"]} for quota in wanted]
    (directory / "quotas.json").write_text(json.dumps(plain), encoding="utf-8")


def main() -> None:
    """Read the command line and write the repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("entities", type=int)
    parser.add_argument("--drift-percent", type=int, default=0, choices=(0, 1, 2, 5, 10))
    options = parser.parse_args()
    write(options.directory, quotas(options.entities, drift_percent=options.drift_percent))


if __name__ == "__main__":
    main()
