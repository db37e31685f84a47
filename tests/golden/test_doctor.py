"""The steps of `quotaform doctor`: one server that refuses the credentials, one that is not tried after it."""

from __future__ import annotations

from quotaform.cluster.checkup import CheckedStep, Checkup, ReachedCluster, Step, StepStatus
from quotaform.cluster.report import render_checkup
from quotaform.model.records.record import dump_record
from quotaform.report.text import Style
from tests.golden.conftest import Golden

FIRST, SECOND = "broker-1:9093", "broker-2:9093"
CHECKUP = Checkup(
    cluster=ReachedCluster(name="prod-eu", id=None),
    checked_at="2026-11-23T09:12:44Z",
    steps=(
        CheckedStep(
            step=Step.PROPERTIES,
            facts={"file": "client.properties", "security_protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512"},
        ),
        CheckedStep(step=Step.RESOLVE, server=FIRST, facts={"addresses": "10.0.0.1, 10.0.0.2"}),
        CheckedStep(step=Step.CONNECT, server=FIRST),
        CheckedStep(
            step=Step.TLS,
            server=FIRST,
            facts={"version": "TLSv1.3", "certificate_of": "x\n::error::y", "valid_until": "2027-01-31T00:00:00Z"},
        ),
        CheckedStep(step=Step.API_VERSIONS, server=FIRST, facts={"kafka": "4.3"}),
        CheckedStep(
            step=Step.AUTHENTICATE,
            server=FIRST,
            status=StepStatus.FAILED,
            problem="broker-1:9093 did not accept user svc (SCRAM-SHA-512); check user name and password in "
            "sasl.jaas.config.",
        ),
        CheckedStep(step=Step.CLUSTER_ID, server=FIRST, status=StepStatus.NOT_REACHED),
        CheckedStep(step=Step.RESOLVE, server=SECOND, status=StepStatus.NOT_REACHED),
        CheckedStep(step=Step.DESCRIBE_QUOTAS, status=StepStatus.NOT_REACHED),
    ),
)


def test_doctor_text(golden: Golden) -> None:
    golden("doctor.txt", render_checkup(CHECKUP))


def test_doctor_text_in_colour(golden: Golden) -> None:
    golden("doctor-colour.txt", render_checkup(CHECKUP, Style(is_coloured=True)))


def test_doctor_json(golden: Golden) -> None:
    golden("doctor.json", dump_record(CHECKUP))
