"""`quotaform describe`, `alter`, `snapshot` and `doctor`: what a cluster has, directly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote as quote_for_shell
from typing import Final

from quotaform.cli.console import require_confirmed, write_file
from quotaform.cli.option.cluster import ONE_CLUSTER, OR_SNAPSHOT, Clusters
from quotaform.cli.option.common import AUTO_APPROVE, complete_from, flag, option
from quotaform.cli.option.entity import ANY_ENTITY, FORMER_NAME, Filters, read_entity, require_address
from quotaform.cli.option.run import Engine, Output, printed
from quotaform.cli.present import Results, cluster_paths, report_failures
from quotaform.cluster.gateway import dump_snapshot
from quotaform.desired.writer import render_quotas
from quotaform.model.entity import ENTITY_TYPES, Entity, spell_name
from quotaform.model.errors import UsageError
from quotaform.model.filter import Rule
from quotaform.model.outcome import ClusterOutcome, exit_code, values_of
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.text import did_you_mean, inert, nearest, quote
from quotaform.model.units import parse_number, parse_value
from quotaform.report.finding import render_findings
from quotaform.report.text import counted
from quotaform.system.clock import timestamp
from quotaform.system.files import require_writable

complete_quota_key: Final = complete_from(QUOTA_KEYS)
complete_value: Final = complete_from(QUOTA_KEYS, "=")


def describe(
    *,
    filters: Filters,
    quota_type: list[str] | None = option(
        "--quota-type KEY", "Only this quota key, and entities that have it. Repeatable.", complete=complete_quota_key
    ),
    target: Clusters = OR_SNAPSHOT,
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
    clusters = target.choose(repository, needs_name=False)
    results = Results(output)
    names = [cluster.name for cluster in clusters]
    results.open(names)
    describing = describe_clusters(repository, clusters, entity_filter, keys=keys, progress=console.progress)
    outcomes = results.gather(describing, names)
    starred = [
        f"{each.entity_type}={each.match}"
        for each in entity_filter.components
        if each.match is not None and each.match.endswith("*") and each.rule is not Rule.NOT
    ]

    for described in values_of(outcomes):
        for each in () if described.quotas else starred:
            prefix = quote_for_shell(each.rstrip("*"))
            console.warn(f"* is literal in {each}; --prefix {prefix} selects the names that begin so.")
        if entity is not None and not described.quotas and not keys and not starred:
            console.warn(
                f"{entity.address} has no quotas of its own; quotaform resolve shows which ones limit a request."
            )
        if output.format_name == "yaml":
            # What a file cannot hold, and what one with these entries would do.
            console.report_failure(*render_findings(render_quotas(described.quotas)[1]))
            if keys:
                console.warn(
                    "Some keys are omitted: a file with these entries would remove them, because a declaration covers "
                    "all keys."
                )
    results.present(outcomes)
    return results.exit_code(outcomes)


def alter(
    *,
    entity: Entity | None = ANY_ENTITY,
    name: list[str] | None = FORMER_NAME,
    default: list[str] | None = option("--default", "", hidden=True),
    add: list[str] | None = option(
        "--add KEY=VALUE,...", "Values to set, e.g. producer_byte_rate=10MiB/s. Repeatable.", complete=complete_value
    ),
    delete: list[str] | None = option(
        "--delete KEY,...", "Quota keys to remove. Repeatable.", complete=complete_quota_key
    ),
    validate_only: bool = flag("--validate-only", "Validate on the broker and show the result; change nothing."),
    target: Clusters = ONE_CLUSTER,
    auto_approve: bool = AUTO_APPROVE,
    output: Output = printed("alter"),
) -> int:
    """Set and remove quotas of one entity, and print the resulting values.

    All changes are made or none. Values that differ from the files are reported as drift. Exit 6 if it is unknown
    whether the change was made, or if it does not become visible within 30 seconds.

    \b
    Examples:
      quotaform alter user=svc-orders --add producer_byte_rate=20MiB/s,request_percentage=150%
      quotaform alter 'user=<default>,client-id=etl' --delete producer_byte_rate
      quotaform alter 'ip=<default>' --add connection_creation_rate=unlimited --validate-only
    """
    from quotaform.apply.write import alter_entity
    from quotaform.repository.gateway import open_pinned_gateway, repeated
    from quotaform.resolve.quota_admin import QuotaAdmin

    console = output.console
    console.keep_code()
    entity = read_entity(name, default, entity=entity)
    if not entity.parts:
        raise UsageError("no entity is given; write its address, as in user=alice or 'user=<default>'")
    ops = read_ops(entity, add or (), delete or ())
    chosen = target.choose_one()
    if chosen.snapshot is not None:
        raise UsageError(f"cluster {chosen.name} is a snapshot file, which cannot be altered")
    reading = f"Reading quotas of {spell_name(chosen.label)}"
    with repeated(console.progress, reading):
        opened = open_pinned_gateway(chosen, is_reading=False)
    with QuotaAdmin(opened) as admin:
        cluster_id = admin.cluster_id()
        require_confirmed(console, chosen, auto_approve=auto_approve or validate_only)
        try:
            with repeated(console.progress, reading) as steps:
                done = alter_entity(admin, entity, ops, validate_only=validate_only, progress=steps)
        except KeyboardInterrupt:
            if not validate_only:
                console.write_stderr(f"It is not known whether {entity.address} was changed: describe it.\n")
            raise
    if done.is_late:
        console.warn("The response of the broker was lost, but the change is visible.")
    output.print(
        done,
        cluster_name=chosen.label,
        cluster_id=cluster_id,
        read_at=timestamp(),
        heading=chosen.label if chosen.has_name else None,
    )
    return 0


_MISSPELT: Final = 0.8
"""How near a key must be to a known one to be taken for it; a newer broker may have keys that are less near."""


def read_ops(entity: Entity, added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read what is to be set (`key=value`, in units) and removed (`key`), each list separated by commas.

    A key that this version does not know, and that is no misspelt known one, takes a plain number, and the broker
    decides on it.
    """
    ops: dict[str, float | None] = {}
    for lists, is_set in ((added, True), (deleted, False)):
        for piece in (piece for text in lists for piece in text.split(",")):
            name, separator, text = piece.partition("=")
            if not name or bool(separator) is not is_set:
                form = "KEY=VALUE, such as producer_byte_rate=10MiB/s" if is_set else "the name of a quota key"
                raise UsageError(f"{'--add' if is_set else '--delete'} {quote(piece)} is not {form}")
            if name in ops:
                raise UsageError(f"{quote(name)} is given twice")
            ops[name] = _read_value(entity, name, text) if is_set else None
    if not ops:
        raise UsageError("no change is given; use --add KEY=VALUE or --delete KEY")
    if any(value is not None for value in ops.values()):
        for entity_type, part in entity.parts:
            if part == "":
                raise UsageError(f"the name of {entity_type} is empty; for the default write '{entity_type}=<default>'")
        require_address(entity)
    return ops


def _read_value(entity: Entity, name: str, text: str) -> float:
    key = QUOTA_KEYS.get(name)
    if key is None and nearest(name, QUOTA_KEYS, cutoff=_MISSPELT) is not None:
        raise UsageError(f"--add: {quote(name)} is not a quota key{did_you_mean(name, QUOTA_KEYS)}")
    try:
        if key is None:
            return parse_number(text)
        if set(entity.types) <= set(ENTITY_TYPES) and not key.fits(entity):
            fitting = ", ".join(keys_for(entity))
            can = f"it can have {fitting}" if fitting else "no key is"
            raise ValueError(f"{name} is not valid for {entity.address}; {can}")
        return parse_value(key, text)
    except ValueError as error:
        from quotaform.apply.write import unknown_key_hint

        raise UsageError(f"--add: {error}{'' if key else unknown_key_hint(name)}") from error


def snapshot(
    *,
    target: Clusters,
    path: Path | None = option(
        "--output -o FILE", "Path of the file; {cluster} stands for the cluster name. [default: stdout]"
    ),
    engine: Engine,
    output: Output,
) -> int:
    """Write all live quotas of a cluster to one JSON file, to plan against offline.

    \b
    Examples:
      quotaform snapshot --output snapshots/lab.json
      quotaform snapshot --all --output 'snapshots/{cluster}.json'
      quotaform plan --snapshot snapshots/lab.json
    """
    from quotaform.api import snapshot as take_snapshots

    console = output.console
    if str(path) == "-":
        path = None
    repository = target.repository()
    clusters = target.choose(repository)
    names = [cluster.name for cluster in clusters]
    paths = cluster_paths("--output", path or "", names)
    session, progress = engine.start(console, "Reading", len(clusters))
    outcomes = []
    for outcome in take_snapshots(repository, clusters, engine=session, progress=progress):
        outcomes.append(ClusterOutcome[None](outcome.cluster, error=outcome.error))
        if outcome.error is not None and len(clusters) > 1:
            report_failures(console, [outcome])
            continue
        taken = outcome.require()
        text = dump_snapshot(taken)
        if path is None:
            console.echo(text)
        else:
            file = paths[outcome.cluster]
            require_writable(file)
            write_file(file, text)
            console.keep_code()
            entities = counted(len(taken.quotas), "entity")
            console.echo(f"Wrote {entities} of {inert(outcome.cluster)} to {inert(str(file))}.\n")
    return exit_code(outcomes)


def doctor(*, target: Clusters = ONE_CLUSTER, output: Output = printed("doctor")) -> int:
    """Check step by step whether a cluster can be used: which step fails, why, and what to change.

    Reads the client properties; for each bootstrap server resolves the name, connects, negotiates TLS, asks for the
    Kafka version, authenticates and reads the cluster id; then checks the rights to describe and alter quotas and to
    describe configs. Credentials that one server refused are not tried at another, as that can lock the account.
    Nothing is changed, and the output contains no secrets. Exit 1 if a step failed, 3 if
    it was that of the client properties.

    \b
    Examples:
      quotaform doctor --cluster prod-eu
      quotaform doctor --bootstrap-server broker-1:9093 --command-config client.properties --format json
    """
    from quotaform.repository.gateway import repeated
    from quotaform.repository.run import check_cluster

    cluster = target.choose_one()
    with repeated(output.console.progress, "Checking the cluster") as steps:
        checkup = check_cluster(cluster, progress=steps)
    output.print(checkup)
    return checkup.exit_code
