#!/usr/bin/env python3
"""The write floor: one Python process that sends the quotas of a JSON file with kafka-python in chunks of 1,000 ops.

Nothing is read, validated or looked at again. With --remove the same keys are removed: how a benchmark gets its empty
broker back. As a broker shows what it accepted some time later, that waits for all quotas before and for none after.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

Data = AlterClientQuotasRequest.EntryData
SETTLE_SECONDS = 300


def entry(quota: dict[str, Any], *, remove: bool) -> Any:
    """Return one entry of the request."""
    return Data(
        entity=[Data.EntityData(entity_type=kind, entity_name=name) for kind, name in quota["entity"].items()],
        ops=[
            Data.OpData(key=key, value=0.0 if remove else value, remove=remove)
            for key, value in quota["values"].items()
        ],
    )


def send(admin: Any, request: Any) -> Any:
    """Send one request and return its answer."""
    return admin._manager.run(admin._manager.send, request)


def alter(admin: Any, quotas: list[dict[str, Any]], *, remove: bool, chunk: int) -> int:
    """Send all quotas and return how many requests it took."""
    requests, entries, ops = 0, [], 0
    for position, quota in enumerate(quotas, start=1):
        entries.append(entry(quota, remove=remove))
        ops += len(quota["values"])
        if ops >= chunk or position == len(quotas):
            answer = send(admin, AlterClientQuotasRequest(entries=entries, validate_only=False))
            refused = [row for row in answer.entries if row.error_code]
            if refused:
                raise SystemExit(f"refused: {refused[0].error_code} {refused[0].error_message}")
            requests, entries, ops = requests + 1, [], 0
    return requests


def settle(admin: Any, count: int) -> None:
    """Wait until the broker shows `count` entities."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while len(send(admin, DescribeClientQuotasRequest(components=[], strict=False)).entries or ()) != count:
        if time.monotonic() > deadline:
            raise SystemExit(f"the broker does not show {count} entities after {SETTLE_SECONDS} s")
        time.sleep(0.2)


def main() -> None:
    """Send the quotas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quotas", type=Path)
    parser.add_argument("bootstrap")
    parser.add_argument("--chunk", type=int, default=1000, help="ops per request")
    parser.add_argument(
        "--remove", action="store_true", help="remove the keys from a broker that holds them all, and wait"
    )
    parser.add_argument("--settle", action="store_true", help="wait until the broker shows all quotas")
    options = parser.parse_args()
    quotas = json.loads(options.quotas.read_text(encoding="utf-8"))
    admin: Any = KafkaAdminClient(bootstrap_servers=options.bootstrap)
    try:
        if options.remove:
            settle(admin, len(quotas))
        requests = alter(admin, quotas, remove=options.remove, chunk=options.chunk)
        if options.remove or options.settle:
            settle(admin, 0 if options.remove else len(quotas))
    finally:
        admin.close()
    print(f"entities {len(quotas)} requests {requests}")


if __name__ == "__main__":
    main()
