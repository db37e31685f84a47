"""What limits requests, all keys and all entries that hold them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from quotaform.core.resolve.differing import DifferingNames
from quotaform.core.resolve.entry import NOT_LIMITED, Effective, QuotaEntry, Resolved
from quotaform.core.resolve.index import QuotaIndex, Run
from quotaform.core.resolve.request import PRECEDENCE_OF, UNMENTIONED, Request
from quotaform.model.quota_key import QUOTA_KEYS

_new: Final = tuple.__new__


class _Merged:
    """Entries of the weaker levels put together, key by key, which many requests have in common.

    Requests with the same names on the weaker levels share an object, and so do the names there that no quota mentions.
    What is kept grows with the quotas and not with the requests.
    """

    __slots__ = ("_beaten", "_default", "_found", "_kept", "result")

    def __init__(self, found: dict[str, Resolved], kept: dict[Hashable, _Merged] | None) -> None:
        self._found = found
        self._kept = kept
        self._default: _Merged | None = None
        self._beaten: dict[str, tuple[Effective, ...]] = {}
        self.result: Mapping[str, Resolved] = MappingProxyType(found)

    def under(self, run: Run, request: Request) -> _Merged:
        """Return the same under the entries that a request finds on stronger levels."""
        names = run.pick(request)
        kept = self._kept
        if kept is not None and (known := kept.get(names)) is not None:
            return known
        entries = run.find(names)
        if entries is run.default:
            if kept is None:
                return self._with(entries, None) if entries else self
            # Another object even without entries: what it keeps is by the names of another run.
            if self._default is None:
                self._default = self._with(entries, {})
            return self._default
        merged = self._with(entries, None)
        if kept is not None:
            kept[names] = merged
        return merged

    def _with(self, entries: tuple[QuotaEntry, ...], kept: dict[Hashable, _Merged] | None) -> _Merged:
        found = self._found.copy()
        for place, entry in enumerate(reversed(entries)):
            # What the first one beats is beaten by the entries of other requests as well, which share it.
            shared = self._beaten if place == 0 else {}
            for key, own in (entry.alone or entry.resolve_alone()).items():
                beaten = found.get(key, NOT_LIMITED)
                if beaten[1] is None:
                    found[key] = own
                    continue
                lost = shared.get(key)
                if lost is None:
                    lost = shared[key] = beaten.entries
                # Half the time of calling the class.
                found[key] = _new(Resolved, (own[0], own[1], lost, own[3], own[4]))
        return _Merged(found, kept)


class Resolver:
    """Resolves requests against quotas that are indexed once."""

    def __init__(self, index: QuotaIndex) -> None:
        self.index: Final = index
        self._differing: Final = DifferingNames(index)
        self._weakest: dict[Run, _Merged] = {}

    def resolve(self, request: Request, keys: Iterable[str] = ()) -> Mapping[str, Resolved]:
        """Resolve every quota key that can limit a request; keys that nothing limits have no source.

        Requests that resolve alike have one result, which therefore cannot be changed.

        >>> from quotaform.model.entity import Entity
        >>> key = "producer_byte_rate"
        >>> resolver = Resolver(QuotaIndex({Entity(user="a"): {key: 9.0}, Entity(user=None): {key: 5.0}}))
        >>> found = resolver.resolve(("a", "app"))[key]
        >>> found.value, found.source_name, found.overridden[0].source.address
        (9.0, 'User', 'user=<default>')

        Args:
            keys: Keys that this version does not know and that are resolved even if no entry of the request holds them.
        """
        spelled, runs = self.index.walk(request)
        merged = self._weakest.get(runs[-1])
        if merged is None:
            untouched = dict.fromkeys(PRECEDENCE_OF[len(request)].keys, NOT_LIMITED)
            merged = self._weakest[runs[-1]] = _Merged(untouched, {})
        for run in reversed(runs):
            merged = merged.under(run, spelled)
        if request[0] is UNMENTIONED or request[-1] is UNMENTIONED:
            return self._with_differing(merged.result, request, keys)
        return merged.result

    def _with_differing(
        self, found: Mapping[str, Resolved], request: Request, keys: Iterable[str]
    ) -> Mapping[str, Resolved]:
        others = {key: NOT_LIMITED for key in keys if key not in found and key not in QUOTA_KEYS}
        differing = {
            key: resolved._replace(differs=differs)
            for key, resolved in {**found, **others}.items()
            if (differs := self._differing.count(request, key, resolved.effective))
        }
        return MappingProxyType({**found, **differing}) if differing else found
