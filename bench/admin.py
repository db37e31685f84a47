#!/usr/bin/env python3
"""What the Python API does, and its floors, one per process.

| work | does |
| --- | --- |
| load | reads quotas and makes (user, client-id) pairs: what `resolve` costs before it resolves |
| resolve | the same, and resolves all pairs against the quotas as `QuotaAdmin.resolve_all` does |
| decode | one describe of everything with kafka-python, its answer decoded and nothing done with it |
| describe | `QuotaAdmin.describe` |
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

PAIRS = 100_000


def resolve(path: Path, *, resolves: bool) -> str:
    """Resolve pairs of users and client-ids, four of five of which some quota names."""
    from quotaform import Entity, QuotaAdmin
    from quotaform.cluster.gateway import SnapshotGateway
    from quotaform.model.quotas import Snapshot

    items: list[Any] = json.loads(path.read_bytes())
    quotas = {Entity(item["entity"]): item["values"] for item in items}
    users = sorted({name for entity in quotas if (name := entity.names.get("user"))})
    clients = sorted({name for entity in quotas if (name := entity.names.get("client-id"))})
    choose = random.Random(546)
    users += [f"other-{number}" for number in range(len(users) // 4)]
    clients += [f"other-{number}" for number in range(len(clients) // 4)]
    pairs = [Entity(user=choose.choice(users), client_id=choose.choice(clients)) for _ in range(PAIRS)]
    if not resolves:
        return f"{len(pairs)} pairs"
    snapshot = Snapshot(cluster_name="bench", cluster_id="bench", captured_at="", quotas=quotas)
    found = QuotaAdmin(SnapshotGateway(snapshot)).resolve_all(pairs)
    limited = sum(resolved["producer_byte_rate"].source is not None for resolved in found.values())
    return f"{len(found)} resolved, {limited} limited"


def decode(bootstrap: str) -> str:
    """Describe everything with kafka-python."""
    from kafka import KafkaAdminClient
    from kafka.protocol.admin import DescribeClientQuotasRequest

    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        answer = admin._manager.run(admin._manager.send, DescribeClientQuotasRequest(components=[], strict=False))
    finally:
        admin.close()
    return f"{len(answer.entries)} entities"


def describe(bootstrap: str) -> str:
    """Describe everything."""
    from quotaform import QuotaAdmin

    with QuotaAdmin.connect(bootstrap) as admin:
        return f"{len(admin.describe())} entities"


def main() -> None:
    """Do one work and say how much it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=("load", "resolve", "decode", "describe"))
    parser.add_argument("where", help="quotas.json, or bootstrap servers")
    options = parser.parse_args()
    if options.work in ("load", "resolve"):
        print(resolve(Path(options.where), resolves=options.work == "resolve"))
    else:
        print({"decode": decode, "describe": describe}[options.work](options.where))


if __name__ == "__main__":
    main()
