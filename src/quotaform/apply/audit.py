"""The file that every apply appends to: who changed what, when, and what was refused."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from quotaform.apply.applier import Applier
from quotaform.apply.records import Auditor
from quotaform.model.errors import QuotaformError
from quotaform.plan.plan import PlanDigest
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.system.files import require_no_way_out
from quotaform.system.process import signal_name


class AuditFile:
    """Appends the lines about one run; without a file it does nothing."""

    def __init__(self, path: Path | None, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open the file, before anything else is done.

        `path` is the file; `None` when nobody asked for one. Raises `QuotaformError` if it cannot be opened.
        """
        self._path = path
        self._clock = clock
        applier = Applier.current()
        self.auditor = Auditor(applied_by=applier.name, run=applier.run)
        """Creates the lines."""
        self._ended: set[str] = set()
        try:
            self._file = None if path is None else AppendedFile(path)
        except OSError as error:
            raise QuotaformError(f"{self._problem(error)}; nothing was done: name another file") from error

    @contextmanager
    def refusals(self, plans: Iterable[PlanDigest]) -> Iterator[None]:
        """Note of each plan which has no end yet that it is refused, if that is how this block ends."""
        try:
            yield
        except (QuotaformError, KeyboardInterrupt) as error:
            reason = str(error) if isinstance(error, QuotaformError) else f"interrupted by {signal_name(error)}"
            for plan in plans:
                if plan.cluster_name not in self._ended:
                    self._end(plan.cluster_name, [self.auditor.refused(plan, timestamp(self._clock), reason)])
            raise

    def start(self, plan: PlanDigest) -> None:
        """Note that a plan is going to be applied.

        Raises `QuotaformError` if that cannot be written, so that nothing must be applied.
        """
        try:
            self._append([self.auditor.start(plan, timestamp(self._clock))])
        except OSError as error:
            raise QuotaformError(f"{self._problem(error)}; nothing was written to the cluster") from error

    def finish(self, cluster: str, lines: Iterable[str]) -> QuotaformError | None:
        """Note what was done; return why that could not be written, since what is done stays done.

        `cluster` is what the plan calls the cluster. `lines` is what `Auditor.ended` made of the receipt.
        """
        return self._end(cluster, lines)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _end(self, cluster: str, lines: Iterable[str]) -> QuotaformError | None:
        self._ended.add(cluster)
        try:
            self._append(lines)
        except OSError as error:
            return QuotaformError(f"{self._problem(error)}; what was done is in the receipt")
        return None

    def _append(self, lines: Iterable[str]) -> None:
        if self._file is not None:
            self._file.append(lines)

    def _problem(self, error: OSError) -> str:
        return f"{self._path} cannot be written: {error.strerror or error}"


_FLAGS: Final = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


class AppendedFile:
    """A file that lines are appended to; it is never shortened, and what it holds is never written again."""

    def __init__(self, path: Path) -> None:
        """Open it, or create it. Raises `OSError` if it cannot be opened for writing."""
        require_no_way_out(path)
        self._descriptor = os.open(path, _FLAGS, 0o666)
        os.set_blocking(self._descriptor, True)
        self._breaks_line = not _ends_line(path)

    def append(self, lines: Iterable[str]) -> None:
        """Append lines, each by a write of its own, and make them last through a power cut.

        `lines` each end with a line break. Raises `OSError` if they could not be written; some of them may have
        been.
        """
        for line in lines:
            # The last line of a process that was killed may have no end.
            text = f"\n{line}" if self._breaks_line else line
            self._breaks_line = False
            data = text.encode()
            while data:
                data = data[os.write(self._descriptor, data) :]
        with suppress(OSError):  # A pipe and a terminal cannot.
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


def _ends_line(path: Path) -> bool:
    """Whether a file is empty, ends with a line break, or cannot tell."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return True
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True
