"""Arguments: long ones, lists, how quotas are sized; `story-said.txt` and `story-wrong-usage.txt` have the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.client_quotas import read_ops, read_parts, read_properties, render_described
from quotaform.cli.command.usage import SizeOptions
from quotaform.cli.main import run
from quotaform.desired.config import Config, read_config
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity, sanitized_entity
from quotaform.model.errors import UsageError
from quotaform.model.quotas import same_value
from tests.builder import PRODUCER, REQUEST


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    Path("quotas.d").mkdir()


@pytest.mark.parametrize("line", ["import --output", "plan --config", "plan", "validate", "plan --snapshot", "show"])
def test_a_name_that_is_too_long_for_the_file_system_is_no_internal_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import --output` with a name of 100,000 characters ended with an internal error."""
    assert run([*line.split(), "a" * 100_000]) in (1, 3, 64)
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["plan --config {}", "apply {}", "show {}", "describe --snapshot {}"])
def test_a_very_long_argument_is_not_repeated_whole(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument of 100,000 characters was printed whole, and the remedy scrolled away."""
    assert run(line.format("A" * 100_000).split()) in {1, 3, 64}
    printed = capsys.readouterr().err
    assert len(printed) < 2_100
    assert "more characters" in printed


def test_a_very_long_argument_of_kafka_client_quotas_is_not_repeated_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from quotaform.cli.client_quotas import run as run_client_quotas

    assert run_client_quotas(["--describe", "--bootstrap-server", "b:1", "--command-config", "A" * 100_000]) == 1
    assert len(capsys.readouterr().err) < 2_100


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
ENTITIES = st.dictionaries(st.one_of(st.sampled_from(["user", "client-id", "ip"]), NAMES), NAMES, min_size=1)
VALUES = st.dictionaries(NAMES, st.floats(allow_nan=False, allow_infinity=False), min_size=1)


@given(ENTITIES)
def test_any_printed_entity_is_read_as_itself(names: dict[str, str]) -> None:
    printed = sanitized_entity(Entity(names))
    assert read_parts([printed.strip("{}").replace(", ", ",")], []) == names
    assert printed.isprintable()


@given(VALUES)
def test_any_printed_values_are_read_as_themselves_bit_for_bit(values: dict[str, float]) -> None:
    line = render_described({Entity(user="u"): values})
    found = read_ops([",".join(line.split()[1:])], [])
    assert found.keys() == values.keys()
    assert all(same_value(found[key], value) for key, value in values.items())


def test_an_equals_sign_belongs_to_the_name() -> None:
    assert read_parts(["user=CN=a,client-id=b=c="], []) == {"user": "CN=a", "client-id": "b=c="}


def test_a_comma_in_a_password_cuts_nothing() -> None:
    """The rest of the password was taken for a key and told in the error."""
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="se,cret=Q";'
    text = f"security.protocol=SASL_SSL,sasl.jaas.config={jaas},client.id=x"
    assert read_properties([text]) == {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas, "client.id": "x"}


MIB = 2.0**20
ALL = """\
recommend:
  percentile: p99.9
  outlier_days: 1
  headroom: 1.25
  floor: {producer_byte_rate: 1MiB/s, request_percentage: 10}
  cap: {producer_byte_rate: 1048577}
  min_history: 7d
  min_samples: 50
  unused_after: 36h
"""


def config_of(text: str) -> tuple[Config, list[str]]:
    """A configuration, and what is wrong with it."""
    config, problems = read_config(SourceFile("quotaform.yaml", text), Path())
    return config, [str(problem) for problem in problems]


def test_options_come_before_the_section() -> None:
    config, _ = config_of(ALL)
    settings = SizeOptions(headroom=2.0, floor=[f"{REQUEST}=20"], cap=[f"{PRODUCER}=5MiB/s"]).settings(config, ())
    assert (settings.headroom, settings.percentile, settings.min_samples) == (2.0, 99.9, 50)
    assert (settings.floors, settings.caps) == ({PRODUCER: MIB, REQUEST: 20.0}, {PRODUCER: 5 * MIB})
    given = SizeOptions(percentile=95.0, min_history_days=1.0, min_samples=7, unused_after_days=90.0).settings(
        config, ()
    )
    assert (given.percentile, given.min_history_days, given.min_samples) == (95.0, 1.0, 7)
    assert given.unused_after_days == 90.0
    assert [SizeOptions(outlier_days=number).settings(config, ()).outlier_days for number in (None, 0, 2)] == [1, 0, 2]
    with pytest.raises(UsageError, match="the floor of producer_byte_rate is above its cap"):
        SizeOptions(floor=[f"{PRODUCER}=2MiB/s"]).settings(config, ())
