"""The JSON of `quotaform doctor`."""

from __future__ import annotations

from dataclasses import asdict

from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster
from quotaform.model.checkup import Checkup
from quotaform.model.document_kind import DOCTOR


def dump_checkup(checkup: Checkup) -> str:
    """Return the steps as JSON."""
    head = {"cluster": dump_cluster(checkup.cluster_name, checkup.cluster_id), "checked_at": checkup.checked_at}
    steps = [asdict(step) for step in checkup.steps]
    return indented(envelope(DOCTOR, {**head, "healthy": checkup.is_healthy, "steps": steps}))
