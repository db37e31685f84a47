"""`quotaform doctor`: check step by step whether a cluster can be used."""

from __future__ import annotations

from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import with_options
from quotaform.cli.option.output import Output, printed


@with_options
def doctor(*, target: OneCluster, output: Output = printed("doctor")) -> int:
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
    from quotaform.repository.cluster_work import repeated
    from quotaform.repository.run import check_cluster

    cluster = target.choose()
    with repeated(output.console.progress, "Checking the cluster") as steps:
        checkup = check_cluster(cluster, progress=steps)
    output.print(checkup)
    return checkup.exit_code
