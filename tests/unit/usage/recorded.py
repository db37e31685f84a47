"""What recordings hold, in short."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from quotaform.usage.format import parse
from quotaform.usage.metric_name import Origin
from quotaform.usage.record.reader import Reader
from quotaform.usage.sample import Attribute, Item, Rejected, Sample, Series

DATA = Path(__file__).parents[2] / "data" / "usage"
ORIGIN = Origin("prod", "1")
TS = 1763676256.0


class FakeReader(Reader):
    """Answers as a function says, which is given how often it was asked before; counts what is under way at once."""

    def __init__(self, reply: Callable[[int], bytes]) -> None:
        super().__init__("http://b1", self._answer)
        self.reply = reply
        self.asked = self.most_at_once = self._now = 0

    def _answer(self, timeout: float, at: float) -> tuple[int, Iterable[Item]]:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        number, self.asked = self.asked, self.asked + 1
        try:
            body = self.reply(number)
            return len(body), parse("exposition", body, Origin("lab", "1"), at)
        finally:
            self._now -= 1


def samples(items: Iterable[object]) -> list[Sample]:
    return [item for item in items if isinstance(item, Sample)]


def values(items: Iterable[object]) -> list[tuple[float, float]]:
    """The times and values of the samples."""
    return [(item.ts, item.value) for item in samples(items)]


def reasons(items: Iterable[Item]) -> list[str]:
    """Why records could not be read."""
    return [item.reason for item in items if isinstance(item, Rejected)]


def series(
    key: str = "producer_byte_rate",
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    attribute: Attribute = Attribute.RATE,
    instance: str | None = None,
    broker: str | None = "1",
) -> Series:
    return Series("prod", broker, key, user, client_id, ip, instance, attribute)
