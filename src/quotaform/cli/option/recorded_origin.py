"""The options that say where recordings are from, and which labels of metrics say what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quotaform.core.usage.metric.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOrigin:
    """What counts for metrics that do not say where they are from, and how labels are called."""

    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Cluster of metrics without a cluster label.")
    ] = None
    broker: Annotated[
        str | None, typer.Option("--broker", metavar="NAME", help="Broker of metrics without a broker label.")
    ] = None
    cluster_label: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-label",
            metavar="LABEL",
            help="Label with the cluster name. Repeatable; the first match counts. [default: cluster, ...]",
        ),
    ] = None
    broker_label: Annotated[
        list[str] | None,
        typer.Option(
            "--broker-label",
            metavar="LABEL",
            help="Label with the broker name. Repeatable; the first match counts. [default: broker, ...]",
        ),
    ] = None
    type_label: Annotated[
        list[str] | None,
        typer.Option(
            "--type-label",
            metavar="LABEL",
            help="Label with the quota type, such as Produce. Repeatable. [default: quota_type, ...]",
        ),
    ] = None
    user_label: Annotated[
        list[str] | None,
        typer.Option("--user-label", metavar="LABEL", help="Label with the user. Repeatable. [default: user, ...]"),
    ] = None
    client_id_label: Annotated[
        list[str] | None,
        typer.Option(
            "--client-id-label",
            metavar="LABEL",
            help="Label with the client-id. Repeatable. [default: client_id, ...]",
        ),
    ] = None
    ip_label: Annotated[
        list[str] | None,
        typer.Option("--ip-label", metavar="LABEL", help="Label with the IP address. Repeatable. [default: ip, ...]"),
    ] = None

    def origin(self) -> Origin:
        """Return it as the parsers take it."""
        from quotaform.core.usage.metric.origin import (
            BROKER_LABELS,
            CLIENT_ID_LABELS,
            CLUSTER_LABELS,
            IP_LABELS,
            TYPE_LABELS,
            USER_LABELS,
            Origin,
        )

        return Origin(
            cluster=self.cluster,
            broker=self.broker,
            cluster_labels=tuple(self.cluster_label or CLUSTER_LABELS),
            broker_labels=tuple(self.broker_label or BROKER_LABELS),
            type_labels=tuple(self.type_label or TYPE_LABELS),
            user_labels=tuple(self.user_label or USER_LABELS),
            client_id_labels=tuple(self.client_id_label or CLIENT_ID_LABELS),
            ip_labels=tuple(self.ip_label or IP_LABELS),
        )
