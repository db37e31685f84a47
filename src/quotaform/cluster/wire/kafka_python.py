"""The one module that imports kafka-python, for its table of what each release of Kafka speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from warnings import catch_warnings, simplefilter


def name_broker_version(versions: Mapping[int, tuple[int, int]]) -> str:
    """Return the release of Kafka that speaks these versions by API key, as well as it can be known; for messages."""
    try:
        with _import_warnings_ignored():
            from kafka.protocol.broker_version_data import BrokerVersionData
        return ".".join(map(str, BrokerVersionData(api_versions=dict(versions)).broker_version))
    except Exception:
        return "of an unknown version"


@contextmanager
def _import_warnings_ignored() -> Iterator[None]:
    with catch_warnings():
        # It reads its message schemas in a way that Python 3.11 calls deprecated.
        simplefilter("ignore", DeprecationWarning)
        yield
