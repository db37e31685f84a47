"""The comma-separated lists of `kafka-client-quotas`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.client_quotas.command import read_ops, read_parts, read_properties, render_described
from quotaform.model.entity import Entity, sanitized_entity
from quotaform.model.quotas import same_value

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
