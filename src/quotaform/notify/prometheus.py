"""Metrics in the text format of Prometheus: written for its textfile collector and served over HTTP.

The one door to `prometheus_client`. A registry of its own holds the metrics of `quotaform.core.drift.metric` and no
others: nothing about the process, which would change with every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from quotaform.core.drift.metric import METRICS, Sample, Samples, is_sample

MOST_SAMPLES: Final = 200_000
"""How many samples of an existing file are read: 1,000 clusters have some 20,000."""


class _Samples(Collector):
    """Shows samples to `prometheus_client`."""

    def __init__(self, read: Callable[[], Samples]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        samples = self._read()
        for metric in METRICS.values():
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.all_labels)
            for (_, labels), value in sorted(item for item in samples.items() if item[0][0] == metric.name):
                family.add_metric(labels, value)
            if family.samples:
                yield family


def _registry(read: Callable[[], Samples]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(read))
    return registry


def render_metrics(samples: Samples) -> str:
    """Return samples as a file for the textfile collector: sorted, without times."""
    return generate_latest(_registry(lambda: samples)).decode()


def metrics_app(read: Callable[[], Samples]) -> Callable[..., Any]:
    """Return a WSGI application that serves samples, read anew for each request."""
    return make_wsgi_app(_registry(read))


def parse_metrics(text: str) -> dict[Sample, float]:
    """Return the samples of a file that `render_metrics` wrote; what is none of our metrics is left out.

    Raises `ValueError` if it is not in the text format, or has too many samples.
    """
    found: dict[Sample, float] = {}
    count = 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                count += 1
                if count > MOST_SAMPLES:
                    raise ValueError
                if is_sample(sample.name, sample.labels):
                    labels = tuple(sample.labels[label] for label in METRICS[sample.name].all_labels)
                    found[sample.name, labels] = float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ValueError("it is not in the text format of Prometheus, or has too many samples") from None
    return found
