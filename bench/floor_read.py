#!/usr/bin/env python3
"""The read floor: what reading the files and the broker costs in one Python process, with nothing done about it.

`yaml.load` with CSafeLoader over the files, one describe-all with kafka-python, a dict compare. No positions, no
schema, no precedence, no plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeClientQuotasRequest

Parts = frozenset[tuple[str, str | None]]
Quotas = dict[Parts, dict[str, float]]


def read_files(directory: Path) -> Quotas:
    """Return what quotas.d declares."""
    numbers: dict[str, float] = {}
    declared: Quotas = {}
    for path in sorted(directory.glob("*.yaml")):
        for entry in yaml.load(path.read_bytes(), yaml.CSafeLoader)["quotas"]:
            names = entry["match"].items()
            parts = frozenset((kind, None if name == "<default>" else name) for kind, name in names)
            values = {}
            for key, text in entry["values"].items():
                if text not in numbers:
                    numbers[text] = (
                        float(text[:-1]) if text.endswith("%") else float(text.removesuffix("MiB/s")) * 2**20
                    )
                values[key] = numbers[text]
            declared[parts] = values
    return declared


def read_broker(bootstrap: str) -> Quotas:
    """Return what the cluster holds."""
    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        answer = admin._manager.run(admin._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
    finally:
        admin.close()
    if answer.error_code:
        raise SystemExit(f"describe failed: {answer.error_code} {answer.error_message}")
    return {
        frozenset([(part.entity_type, part.entity_name) for part in entry.entity]): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def main() -> None:
    """Compare and print the number of differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("bootstrap")
    options = parser.parse_args()
    declared, live = read_files(options.directory), read_broker(options.bootstrap)
    different = [parts for parts, values in declared.items() if live.get(parts) != values]
    print(f"live {len(live)} declared {len(declared)} different {len(different)}")


if __name__ == "__main__":
    main()
