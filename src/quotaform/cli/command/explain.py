"""`quotaform explain`: where the declared values of an entity come from."""

from __future__ import annotations

from typing import Annotated

from quotaform.cli.exit_code import decide
from quotaform.cli.option.common import ClustersOption, ConfigOption, DirectoryArgument
from quotaform.cli.option.entity import RequiredEntity
from quotaform.cli.option.output import Output, format_option, require_format, with_option_groups
from quotaform.cli.present import report_failures
from quotaform.model.errors import ExitCode
from quotaform.report.format import render


@with_option_groups
def explain(
    *,
    entity: RequiredEntity,
    directory: DirectoryArgument = None,
    config: ConfigOption = None,
    cluster: ClustersOption = None,
    format_name: Annotated[str, format_option("explain")] = "text",
    output: Output,
) -> int:
    """Show where the declared values of an entity come from, offline.

    For each quota key: the effective declared value, then what each layer sets, in order (profile, values, unset,
    state: absent or expiry), with its location; the last one wins, marked with *. Without --cluster, all clusters of
    quotaform.yaml. Exit 1 if no file declares the entity.

    \b
    Examples:
      quotaform explain user=svc-orders
      quotaform explain 'user=svc-a,client-id=<default>' --cluster prod-eu
      quotaform explain 'user="CN=a,O=b"' quotas.d --format json
    """
    from quotaform.repository.repository import Repository
    from quotaform.resolve.run import explain_entity
    from quotaform.system.clock import today

    console = output.console()
    require_format("explain", format_name)
    explained = explain_entity(Repository.at(directory, config), entity, cluster or (), today())
    for piece in render("explain", format_name, explained, style=console.style()):
        console.echo(piece)
    report_failures(console, explained.failed)
    return decide(explained.failed, lambda _: ExitCode.DONE)
