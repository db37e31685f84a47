"""The table of rules: one row for everything that can be found in files, in a plan or on a cluster.

A finding is made from its row: `rule.BAD_MATCH.finding("...", location=...)`. Messages say what is wrong at one place;
a row says what such a finding means and what to do about it in general, and `docs/rules.md` is made of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quotaform.model.finding import Severity
from quotaform.model.rule import Rule

_WARNING: Final = Severity.WARNING
_NOTE: Final = Severity.NOTE

# Reading files.
MISSING_CONFIG: Final = Rule(
    "missing-config",
    "The quotaform.yaml that was named does not exist.",
    "Write it, or name another one with `--config`.",
)
UNREADABLE: Final = Rule(
    "unreadable",
    "A file or a folder cannot be read.",
    "Check that it is there and that its permissions allow reading.",
)
NOT_UTF8: Final = Rule("not-utf8", "A file is not text in UTF-8.", "Save the file as UTF-8.")
EMPTY_DIRECTORY: Final = Rule(
    "empty-directory",
    "The quotas directory does not exist or holds no YAML file.",
    "Write a file in it; `quotas: []` declares that there are no quotas.",
)
UNKNOWN_CLUSTER: Final = Rule(
    "unknown-cluster",
    "A folder in the quotas directory has the name of no cluster, so that nobody would read it.",
    "Name the folder after a cluster of quotaform.yaml, or add the cluster there.",
)
NESTED_DIRECTORY: Final = Rule(
    "nested-directory",
    "A cluster's folder holds another folder, which is not read.",
    "Move its files up.",
)
UNREAD_FILE: Final = Rule(
    "unread-file",
    "A file in the quotas directory has a name that is not read.",
    "Rename it to `.yaml` or `.yml`, or move it elsewhere.",
)

# YAML.
YAML_SYNTAX: Final = Rule("yaml-syntax", "A file is not valid YAML.", "Correct the place that the message names.")
YAML_TAG: Final = Rule("yaml-tag", "A value has a YAML tag, which is not supported.", "Write the value without it.")
MULTI_DOCUMENT: Final = Rule(
    "multi-document", "A file holds more than one YAML document.", "Remove the `---`, or make two files."
)
DUPLICATE_KEY: Final = Rule("duplicate-key", "A key is written twice in one mapping.", "Keep one of the two.")
BAD_MERGE: Final = Rule(
    "bad-merge",
    "A merge key `<<` names something that is not a mapping.",
    "Write `<<: *name` or `<<: [*first, *second]`.",
)
UNKNOWN_ALIAS: Final = Rule(
    "unknown-alias", "An alias `*name` has no anchor `&name` before it.", "Write the anchor first, or correct the name."
)
RECURSIVE_ALIAS: Final = Rule(
    "recursive-alias", "An alias is inside of what its anchor names.", "Write out what is meant."
)
ALIAS_BOMB: Final = Rule(
    "alias-bomb", "The aliases of a file expand to too many values.", "Write out what is meant, or use fewer aliases."
)
TOO_DEEP: Final = Rule("too-deep", "A file is nested too deeply.", "Nest less; no entry needs such a depth.")

# The shape that a JSON Schema asks for.
UNKNOWN_FIELD: Final = Rule("unknown-field", "A field is unknown.", "Correct its name or remove it.")
MISSING_FIELD: Final = Rule("missing-field", "A required field is missing.", "Write it.")
EMPTY_FIELD: Final = Rule("empty-field", "A field is empty that must not be.", "Write a value, or remove the field.")
WRONG_TYPE: Final = Rule(
    "wrong-type", "A field has a value of another type.", "Write the type that is asked for; quote what must be text."
)
BAD_CHOICE: Final = Rule("bad-choice", "A field has none of the values that it may have.", "Choose one of them.")
BAD_TEXT: Final = Rule("bad-text", "A text does not have the form that its field asks for.", "Write it in that form.")
BAD_FIELD: Final = Rule("bad-field", "The value of a field is not valid.", "Correct it.")
BAD_SHAPE: Final = Rule(
    "bad-shape",
    "A part of a file is not what its JSON Schema asks for; on a live entity (a warning) a combination of entity types "
    "that no broker resolves.",
    "Compare it with the schema that `quotaform schema` prints; a live entity is left alone.",
)
UNSUPPORTED: Final = Rule(
    "unsupported",
    "A setting of quotaform.yaml is not supported by this version.",
    "Remove it, or use a version that supports it.",
)

# quotaform.yaml.
BAD_CLUSTER: Final = Rule(
    "bad-cluster",
    "The settings of a cluster do not go together.",
    "Give either bootstrap_servers (and command_config) or snapshot.",
)
BAD_SERVER: Final = Rule("bad-server", "A bootstrap server is not HOST:PORT.", "Write it as `broker-1:9092`.")
BAD_VARIABLE: Final = Rule(
    "bad-variable",
    "A text holds a `${...}` that is not `${env:NAME}`.",
    "Only environment variables are expanded; write `${env:NAME}`.",
)
UNSET_VARIABLE: Final = Rule(
    "unset-variable", "An environment variable that a file refers to is not set.", "Set it for this command."
)

# The entries of quotas.d.
BAD_MATCH: Final = Rule(
    "bad-match",
    "The match of an entry is not a combination of entity types that Kafka has.",
    "Use user, client-id, both of them, or ip alone.",
)
BAD_NAME: Final = Rule(
    "bad-name",
    "A name cannot be used; on a live entity (a warning) it cannot be sent to a broker.",
    "Correct or quote the name; a live entity is left alone.",
)
ODD_NAME: Final = Rule(
    "odd-name",
    "A name is allowed but looks like a mistake.",
    "Kafka uses it literally: check that it is intended.",
    _WARNING,
)
BAD_KEY: Final = Rule(
    "bad-key",
    "A key is not text, or a quota key is not valid for the entity types of its entry.",
    "Use one of the keys that the message lists; quote what must be text.",
)
UNKNOWN_KEY: Final = Rule(
    "unknown-key",
    "A quota key is unknown; on a live entity this is a note.",
    "Correct the name in the file; on a live entity the key is never touched.",
)
BAD_VALUE: Final = Rule(
    "bad-value", "A value is not one that its quota key can have.", "Write it with the unit of its key, or `unlimited`."
)
NO_VALUES: Final = Rule(
    "no-values", "An entry declares no values.", "Write values, a profile or `state: absent`, or remove the entry."
)
UNKNOWN_PROFILE: Final = Rule(
    "unknown-profile",
    "An entry names a profile that quotaform.yaml does not have.",
    "Correct the name, or add it there.",
)
BAD_STATE: Final = Rule(
    "bad-state", "An entry with `state: absent` has a field that means nothing then.", "Remove the field or the state."
)
BAD_UNSET: Final = Rule(
    "bad-unset",
    "`unset` names a key that it cannot take away.",
    "Use it in a cluster's layer, for keys that the common entry declares and the layer does not set.",
)
BAD_DATE: Final = Rule("bad-date", "A date is not a day.", "Write it as `2026-12-31`.")
EXPIRED: Final = Rule(
    "expired",
    "The day on which an entry expires has come, so it counts as absent.",
    "Remove the entry when the entity is gone.",
    _NOTE,
)
DUPLICATE_ENTITY: Final = Rule(
    "duplicate-entity", "One entity is declared twice in one layer, or is twice in a snapshot.", "Keep one of the two."
)
TOO_MANY_ENTITIES: Final = Rule(
    "too-many-entities", "The lists in the matches of a file make too many entities.", "Write shorter lists."
)
OUT_OF_SCOPE: Final = Rule(
    "out-of-scope",
    "An entry is outside of the scope that quotaform.yaml sets.",
    "Remove the entry, or widen the scope.",
)

# Other files.
SNAPSHOT: Final = Rule(
    "snapshot", "A snapshot file cannot be read or is not valid.", "Write it again with `quotaform snapshot`."
)
CLIENT_PROPERTIES: Final = Rule(
    "client-properties",
    "A file of Java client properties cannot be used.",
    "Correct the line that the message names.",
)
REQUESTS: Final = Rule(
    "requests",
    "A file of requests to resolve cannot be read or is not valid.",
    "Write CSV or JSON lines with the columns user, client_id and ip.",
)

# What a cluster holds.
UNKNOWN_TYPE: Final = Rule(
    "unknown-type", "A live entity has a type that this version does not know.", "It is never touched.", _WARNING
)
EMPTY_NAME: Final = Rule(
    "empty-name",
    "A live entity has an empty name, which no broker changes or removes (KAFKA-16411).",
    "It is left alone.",
    _WARNING,
)
IP_NAME: Final = Rule(
    "ip-name",
    "An ip is not an address in its canonical form.",
    "Declare or give the address; remove a live entry with Kafka's own tools.",
    _WARNING,
)
IP_ALIAS: Final = Rule(
    "ip-alias",
    "Several entities, or an entity and the request, spell one address in different ways, which has one limit.",
    "Keep only the canonical spelling.",
    _WARNING,
)
MISFIT_KEY: Final = Rule(
    "misfit-key",
    "A live entity has a key that is not valid for its entity types.",
    "It is left alone until the files declare the entity.",
    _WARNING,
)
NAN_VALUE: Final = Rule(
    "nan-value",
    "A live value is NaN: it limits nothing for some requests and blocks others.",
    "Declare the entity with a value, or remove the key.",
    _WARNING,
)
INEXACT_VALUE: Final = Rule(
    "inexact-value",
    "A live value is one that files cannot write: infinite, not above 0, a fraction, or too large.",
    "Declare the entity with a value; until then it is left alone.",
    _WARNING,
)

# Plans.
CLUSTER_ID: Final = Rule(
    "cluster-id",
    "The cluster has another id than the one that quotaform.yaml pins it to.",
    "Check bootstrap_servers, or correct cluster_id in quotaform.yaml.",
    is_blocking=True,
)
NO_MATCH: Final = Rule(
    "no-match",
    "A `--select` pattern matches no entity.",
    "Correct the pattern; patterns begin with a type, as in `user=svc-*`.",
    _WARNING,
)

# Users and their credentials.
UNKNOWN_PRINCIPAL: Final = Rule(
    "unknown-principal",
    "A declared user has no SCRAM credentials on the cluster.",
    "Correct the name, or create the credentials.",
    _WARNING,
)
NO_SCRAM: Final = Rule(
    "no-scram",
    "A cluster keeps no SCRAM credentials, so that declared users could not be checked.",
    "Nothing, when clients authenticate in another way.",
    _NOTE,
)

# Resolved requests.
EMPTY_CLIENT_ID: Final = Rule(
    "empty-client-id",
    "A request has no client-id, so that no entry with a client-id matches it (KAFKA-13341); a warning when there are "
    "such entries.",
    "Give the client-id that the client sends.",
    _NOTE,
)
ANY_USER: Final = Rule(
    "any-user", "A client-id is resolved without a user.", "Give the user for the entries that name one.", _NOTE
)
DEFAULT_WORD: Final = Rule(
    "default-word",
    "A name is `<default>`, which is how people write a default; a request never has it for a name.",
    "Give a name; defaults are found for any name that has no entry of its own.",
    _WARNING,
)
ODD_VALUE: Final = Rule(
    "odd-value",
    "A value that applies has another effect than it seems to have.",
    "Set a value that files can write.",
    _WARNING,
)
UNKNOWN_SHAPE: Final = Rule(
    "unknown-shape",
    "There are entries with a combination of types that only the brokers know.",
    "They are not resolved; ask the documentation of the brokers.",
    _NOTE,
)
QUOTA_CALLBACK: Final = Rule(
    "quota-callback",
    "A broker has a `client.quota.callback.class` (KIP-257), which may ignore what is shown.",
    "Ask the documentation of the callback.",
    _WARNING,
)
QUOTA_CALLBACK_UNCHECKED: Final = Rule(
    "quota-callback-unchecked",
    "Whether a broker has a `client.quota.callback.class` could not be checked.",
    "Allow the principal to describe the configuration of the brokers.",
    _NOTE,
)
PLAN_BLOCKED: Final = Rule(
    "plan-blocked",
    "A plan that is taken as applied is blocked, so that apply refuses it.",
    "Resolve what blocks it and make a new plan.",
    _WARNING,
)
PLAN_STALE: Final = Rule(
    "plan-stale",
    "The cluster no longer holds what a plan that is taken as applied says, so that apply refuses it.",
    "Make a new plan.",
    _WARNING,
)

RULES: Final[Mapping[str, Rule]] = {row.id: row for row in tuple(globals().values()) if isinstance(row, Rule)}
"""All rows by id, in the order of this module."""
