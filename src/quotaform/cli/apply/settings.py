"""What was asked of one apply, whatever it applies."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from quotaform.cli.ci import Ci
from quotaform.cli.console import Console

if TYPE_CHECKING:
    from quotaform.app.apply.audit_file import AuditFile
    from quotaform.cli.fleet_report import FleetReports
    from quotaform.cli.option.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySettings:
    """One apply, and where it prints: when stdout is for JSON, what people read goes to stderr.

    Attributes:
        auto_approve: Whether nobody is asked.
        expected_id: The id of the plan that was approved elsewhere.
        max_age: How old a saved plan may be; `None` for any age.
        receipt_path: Where the receipts go; `None` for the folder of receipts.
        is_dry_run: Whether to stop before the first change is sent, without a receipt.
        has_written: Set once anything was or may have been written to a cluster.
    """

    console: Console
    format_name: str
    auto_approve: bool
    ci: Ci
    audit: AuditFile
    engine: Engine
    reports: FleetReports
    expected_id: str | None = None
    max_age: timedelta | None = None
    receipt_path: Path | None = None
    is_dry_run: bool = False
    has_written: Event = field(default_factory=Event)

    @property
    def is_text(self) -> bool:
        """Whether stdout is for people."""
        return self.format_name == "text"
