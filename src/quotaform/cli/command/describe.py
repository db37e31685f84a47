"""`quotaform describe`: print live quotas."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote as quote_for_shell
from typing import TYPE_CHECKING

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import SnapshotOption, option, with_options
from quotaform.cli.option.entity import Filters
from quotaform.cli.option.output import Output, printed
from quotaform.cli.option.value import complete_quota_key
from quotaform.cli.present import Results
from quotaform.model.filter import Rule
from quotaform.report.format import render

if TYPE_CHECKING:
    from quotaform.model.quotas import Quotas
    from quotaform.resolve.quota_admin import Described


@with_options
def describe(
    *,
    filters: Filters,
    quota_type: list[str] | None = option(
        "--quota-type KEY", "Only this quota key, and entities that have it. Repeatable.", complete=complete_quota_key
    ),
    target: ManyClusters,
    snapshot: SnapshotOption = None,
    output: Output = printed("describe"),
) -> int:
    """Print live quotas with their exact values: of one entity, of those that filters select, or all of them.

    Filters are combined with AND; entities without the entity type of a filter are omitted. TYPE is user, client-id or
    ip; NAME is literal, or in double quotes as printed. So user=alice is that entity alone, and --name user=alice also
    selects alice with a client-id. The YAML format is that of quotas.d. A CSV
    cell that begins with a double quote is a JSON string (names with line breaks or formulas); any other is literal.

    \b
    Examples:
      quotaform describe user=svc-orders
      quotaform describe 'user=svc-orders,client-id=<default>' --format json
      quotaform describe --name user=svc-orders
      quotaform describe --prefix user=svc- --default client-id --format json
      quotaform describe --any user --not user=admin --strict --quota-type producer_byte_rate
      quotaform describe --all --name user=svc-orders
    """
    from quotaform.api import describe as describe_clusters

    console = output.console
    entity_filter, entity = filters.read(), filters.entity
    keys = tuple(dict.fromkeys(quota_type or ()))
    repository = target.repository()
    clusters = target.choose(repository, snapshot=snapshot, needs_name=False)
    results = Results(output)
    names = [cluster.name for cluster in clusters]
    results.open(names)
    described = describe_clusters(repository, clusters, entity_filter, keys=keys, progress=console.progress)
    outcomes = results.gather(described, names)

    starred = [
        f"{each.entity_type}={each.match}"
        for each in entity_filter.components
        if each.match is not None and each.match.endswith("*") and each.rule is not Rule.NOT
    ]

    def rendered(described: Described) -> Iterable[str]:
        for each in () if described.quotas else starred:
            prefix = quote_for_shell(each.rstrip("*"))
            console.warn(f"* is literal in {each}; --prefix {prefix} selects the names that begin so.")
        if entity is not None and not described.quotas and not keys and not starred:
            console.warn(
                f"{entity.address} has no quotas of its own; quotaform resolve shows which ones limit a request."
            )
        if output.format_name == "yaml":
            _warn_of_yaml(console, described.quotas, is_selected=bool(keys))
        return render(
            "describe",
            output.format_name,
            described.quotas,
            style=console.style(),
            is_filtered=bool(keys or entity_filter.components),
            cluster_name=described.cluster_name,
            cluster_id=described.cluster_id,
            read_at=described.read_at,
            snapshot=described.snapshot,
            heading=described.heading,
            entity_filter=entity_filter,
            quota_types=keys,
        )

    results.present(outcomes, rendered=rendered)
    return results.exit_code(outcomes)


def _warn_of_yaml(console: Console, found: Quotas, *, is_selected: bool) -> None:
    """Say what a file cannot hold, and what one with these entries would do."""
    from quotaform.desired.writer import render_quotas
    from quotaform.report.finding import render_findings

    for line in render_findings(render_quotas(found)[1]):
        console.report_failure(line)
    if is_selected:
        console.warn(
            "Some keys are omitted: a file with these entries would remove them, because a declaration covers all keys."
        )
