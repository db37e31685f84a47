"""The table of rules: one row per kind of finding in files, plans and clusters.

A finding is created from its row: `rule.BAD_MATCH.finding("...", location=...)`. The message describes one finding;
the row contains the general meaning and remedy, from which `docs/rules.md` is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quotaform.model.errors import UsageError
from quotaform.model.finding import ALLOW, APPROVALS_NAME, RULE_IDS, Allowance, Finding, Location, Severity
from quotaform.model.text import did_you_mean, quote


@dataclass(frozen=True, slots=True)
class FindingRule:
    """A rule: one thing that can be found in files, in a plan or on a cluster.

    The rows are in `quotaform.model.rule`, and every finding is made from one of them.
    """

    id: str  # its short, stable name, as findings show it
    summary: str  # what a finding of this rule means, in one sentence
    remedy: str  # what to do about it, in one sentence
    severity: Severity = Severity.ERROR  # of its findings, unless they are given another one
    is_blocking: bool = False  # whether such a finding prevents a plan from being applied
    is_allowable: bool = False  # whether an allowance of the operator lifts the block
    is_lint: bool = False  # whether `lints.ignore` of quotaform.yaml can ignore it
    takes_number: bool = False  # whether that takes the number up to which it does
    is_approvable: bool = False  # whether `approvals.yaml` can lift the block for one entity

    @property
    def override(self) -> str | None:
        """What lifts the block, in words; `None` if nothing does."""
        if self.is_allowable:
            return f"{ALLOW} {self.id}{'=N' if self.takes_number else ''}"
        return f"an approval in {APPROVALS_NAME}" if self.is_approvable else None

    def finding(
        self,
        message: str,
        *,
        severity: Severity | None = None,
        address: str | None = None,
        key: str | None = None,
        value: float | None = None,
        number: int | None = None,
        override: str | None = None,
        location: Location | None = None,
    ) -> Finding:
        """Make a finding of this rule, with its severity and its override unless others are given.

        `number`: up to how much it must be allowed, for a rule that counts.

        >>> str(FindingRule("no-values", "An entry has no values.", "Write some.").finding("user=a has no values"))
        'error: user=a has no values [no-values]'
        """
        is_counted = number is not None or not self.takes_number
        allowance = Allowance(self.id, number) if self.is_allowable and is_counted else None
        if override is None:
            override = self.override if allowance is None else allowance.option
        return Finding(
            rule=self.id,
            message=message,
            severity=self.severity if severity is None else severity,
            blocking=self.is_blocking,
            address=address,
            key=key,
            value=value,
            override=override,
            allowance=allowance,
            location=location,
        )


_WARNING: Final = Severity.WARNING
_NOTE: Final = Severity.NOTE

# Reading files.
MISSING_CONFIG: Final = FindingRule(
    "missing-config",
    "The given quotaform.yaml does not exist.",
    "Create it, or give another path with `--config`.",
)
UNREADABLE: Final = FindingRule(
    "unreadable",
    "A file or directory cannot be read.",
    "Check that it exists and is readable.",
)
NOT_UTF8: Final = FindingRule("not-utf8", "A file is not UTF-8 text.", "Save the file as UTF-8.")
EMPTY_DIRECTORY: Final = FindingRule(
    "empty-directory",
    "The quotas directory does not exist or contains no YAML file.",
    "Add a file; `quotas: []` declares no quotas.",
)
NOTHING_DECLARED: Final = FindingRule(
    "nothing-declared",
    "The files are valid but declare nothing for a cluster; `empty` blocks a plan for it.",
    "Declare its entities; if none should be declared, plan with `--allow empty`.",
    _WARNING,
)
UNKNOWN_CLUSTER: Final = FindingRule(
    "unknown-cluster",
    "A subdirectory of the quotas directory is not named after a cluster, so it is not read.",
    "Rename it to a cluster of quotaform.yaml, or add the cluster there.",
)
NESTED_DIRECTORY: Final = FindingRule(
    "nested-directory",
    "The directory of a cluster contains a subdirectory, which is not read.",
    "Move its files to the directory of the cluster.",
)
UNREAD_FILE: Final = FindingRule(
    "unread-file",
    "A file in the quotas directory is not read because of its name.",
    "Rename it to `.yaml` or `.yml`, or move it elsewhere.",
)
DISABLED_FILE: Final = FindingRule(
    "disabled-file",
    "A file in the quotas directory looks like a YAML file that was disabled by renaming it (`.bak`, `.disabled`, "
    "`.yaml.old`), so its entities count as not declared.",
    "Rename it to `.yaml` if its entries should count; otherwise move it elsewhere. To remove a quota from the "
    "cluster, use `state: absent`.",
    _WARNING,
)

# YAML.
YAML_SYNTAX: Final = FindingRule("yaml-syntax", "A file is not valid YAML.", "Correct the reported location.")
YAML_TAG: Final = FindingRule("yaml-tag", "A value has a YAML tag, which is not supported.", "Remove the tag.")
MULTI_DOCUMENT: Final = FindingRule(
    "multi-document", "A file contains more than one YAML document.", "Remove the `---`, or split the file."
)
DUPLICATE_KEY: Final = FindingRule("duplicate-key", "A mapping has the same key twice.", "Remove one of the two.")
BAD_MERGE: Final = FindingRule(
    "bad-merge",
    "The value of a merge key `<<` is not a mapping.",
    "Write `<<: *name` or `<<: [*first, *second]`.",
)
UNKNOWN_ALIAS: Final = FindingRule(
    "unknown-alias", "An alias `*name` has no anchor `&name` before it.", "Write the anchor first, or correct the name."
)
RECURSIVE_ALIAS: Final = FindingRule(
    "recursive-alias", "An alias is part of the value of its own anchor.", "Replace the alias with the value."
)
ALIAS_BOMB: Final = FindingRule("alias-bomb", "The aliases of a file expand to too many values.", "Use fewer aliases.")
TOO_DEEP: Final = FindingRule("too-deep", "A file is nested too deeply.", "Reduce the nesting.")
TOO_LARGE: Final = FindingRule(
    "too-large", "An entry, a list, a text or a pattern is larger than allowed.", "Divide it, or shorten it."
)
UNFORMATTABLE: Final = FindingRule(
    "unformattable",
    "`quotaform fmt` cannot rewrite a file without changing what it declares.",
    "Simplify the file, or leave it unformatted.",
)
MORE_PROBLEMS: Final = FindingRule(
    "more-problems", "There are more problems than are shown.", "Correct the problems shown, and validate again.", _NOTE
)
MORE_WARNINGS: Final = FindingRule(
    "more-warnings", "There are more warnings and notes than are shown.", "Correct those shown first.", _NOTE
)

# Validation against a JSON Schema.
UNKNOWN_FIELD: Final = FindingRule("unknown-field", "A field is unknown.", "Correct or remove it.")
MISSING_FIELD: Final = FindingRule("missing-field", "A required field is missing.", "Add the field.")
EMPTY_FIELD: Final = FindingRule("empty-field", "A field must not be empty.", "Add a value, or remove the field.")
WRONG_TYPE: Final = FindingRule(
    "wrong-type", "The value of a field has the wrong type.", "Use the expected type; quote strings."
)
BAD_CHOICE: Final = FindingRule("bad-choice", "The value is not one of the allowed values.", "Use an allowed value.")
BAD_TEXT: Final = FindingRule("bad-text", "A string does not match the pattern of its field.", "Use the expected form.")
BAD_FIELD: Final = FindingRule("bad-field", "The value of a field is not valid.", "Correct the value.")
BAD_SHAPE: Final = FindingRule(
    "bad-shape",
    "Part of a file does not match its JSON Schema; for a live entity (a warning): a combination of entity types that "
    "no broker resolves.",
    "Compare it with the output of `quotaform schema`; a live entity is left unchanged.",
)
BAD_MAPPING: Final = FindingRule(
    "bad-mapping",
    "The fields of a mapping for a table of usage do not fit together.",
    "Name the columns of rows of metrics (ts, metric, value) or of rows of buckets (ts, key, rate).",
)

# quotaform.yaml.
BAD_CLUSTER: Final = FindingRule(
    "bad-cluster",
    "The settings of a cluster conflict.",
    "Set either bootstrap_servers (and command_config) or snapshot.",
)
BAD_SERVER: Final = FindingRule("bad-server", "A bootstrap server is not HOST:PORT.", "Write it as `broker-1:9092`.")
BAD_METRICS: Final = FindingRule(
    "bad-metrics",
    "A source of measurements of a cluster is not one, or there are two of one broker.",
    "Write `1=http://broker-1:7071/metrics` or `jmx:broker-1:9999`.",
)
BAD_VARIABLE: Final = FindingRule(
    "bad-variable",
    "A string contains a `${...}` other than `${env:NAME}`, or one where variables are not expanded.",
    "Use `${env:NAME}`, in client properties, bootstrap_servers and command_config only.",
)
FORBIDDEN_VARIABLE: Final = FindingRule(
    "forbidden-variable",
    "A referenced environment variable may not be read.",
    "List it in `QUOTAFORM_ENV`.",
)
FORBIDDEN_HOST: Final = FindingRule(
    "forbidden-host",
    "`quotaform.yaml` names a host that the client properties or `QUOTAFORM_ALLOWED_HOSTS` do not allow.",
    "Correct the host, or list it there.",
)
UNSET_VARIABLE: Final = FindingRule(
    "unset-variable", "A referenced environment variable is not set, or is empty.", "Set the variable."
)

# approvals.yaml.
BAD_APPROVAL: Final = FindingRule(
    "bad-approval",
    "An approval names a rule that cannot be approved, its address is not valid, or no cluster matches.",
    "Use a rule that can be approved for an entity, an address as printed by plans, and a cluster of quotaform.yaml.",
)
DUPLICATE_APPROVAL: Final = FindingRule(
    "duplicate-approval", "A rule is approved twice for one entity.", "Remove one of the two."
)

# The entries of quotas.d.
BAD_MATCH: Final = FindingRule(
    "bad-match",
    "The match of an entry is not a combination of entity types that Kafka supports.",
    "Use user, client-id, both, or only ip.",
)
BAD_NAME: Final = FindingRule(
    "bad-name",
    "A name is not valid; for a live entity (a warning): it cannot be sent to a broker.",
    "Correct or quote the name; a live entity is left unchanged.",
)
ODD_NAME: Final = FindingRule(
    "odd-name",
    "A name is valid but probably a mistake.",
    "Check the name; Kafka uses it literally.",
    _WARNING,
)
BAD_KEY: Final = FindingRule(
    "bad-key",
    "A key is not a string, or a quota key is not valid for the entity types of its entry.",
    "Use one of the listed keys; quote strings.",
)
UNKNOWN_KEY: Final = FindingRule(
    "unknown-key",
    "A quota key is unknown; for a live entity this is a note.",
    "Correct the name in the file; the key of a live entity is left unchanged.",
)
BAD_VALUE: Final = FindingRule(
    "bad-value", "A value is not valid for its quota key.", "Use the unit of the key, or `unlimited`."
)
NO_VALUES: Final = FindingRule(
    "no-values", "An entry declares no values.", "Add values, a profile or `state: absent`, or remove the entry."
)
UNKNOWN_PROFILE: Final = FindingRule(
    "unknown-profile",
    "The profile of an entry is not defined in quotaform.yaml.",
    "Correct the name, or define the profile.",
)
BAD_STATE: Final = FindingRule(
    "bad-state",
    "An entry with `state: absent` has a field that does not apply to it.",
    "Remove the field or the state.",
)
BAD_UNSET: Final = FindingRule(
    "bad-unset",
    "`unset` lists a key that it cannot remove.",
    "Use it in a cluster's layer, for keys that the common entry declares and the layer does not set.",
)
BAD_DATE: Final = FindingRule("bad-date", "The date is not valid.", "Write it as `2026-12-31`.")
EXPIRED: Final = FindingRule(
    "expired",
    "An entry has expired and is treated as absent.",
    "Remove the entry after the entity has been deleted.",
    _NOTE,
)
DUPLICATE_ENTITY: Final = FindingRule(
    "duplicate-entity",
    "An entity is declared twice in one layer, or appears twice in a snapshot.",
    "Remove one of the two.",
)
TOO_MANY_ENTITIES: Final = FindingRule(
    "too-many-entities", "A file declares too many entities; lists in a match multiply.", "Divide the file."
)
OUT_OF_SCOPE: Final = FindingRule(
    "out-of-scope",
    "An entry is outside of the scope set in quotaform.yaml.",
    "Remove the entry, or extend the scope; `*` does not stand for a default, which is written `<default>`.",
)

CLAIMED_TWICE: Final = FindingRule(
    "claimed-twice",
    "Two quota repositories declare the same entity for one cluster. Clusters are the same if their pinned ids are "
    "equal or, if an id is not pinned, their names.",
    "Declare the entity in only one of the repositories.",
)
BAD_ROOT: Final = FindingRule(
    "bad-root",
    "A path in `roots` of quotaform.yaml is not another quota repository, or must not be read.",
    "Use the path of a quotas directory, or of its parent, in the same git work tree or next to this repository.",
)
PRUNE_SCOPE: Final = FindingRule(
    "prune-scope",
    "`prune: scope` deletes every undeclared entity in scope, but quotaform.yaml does not define the scope.",
    "Add `scope` with `include`, or use another mode.",
)

# Other files.
SNAPSHOT: Final = FindingRule(
    "snapshot", "A snapshot file cannot be read or is not valid.", "Create it again with `quotaform snapshot`."
)
CLIENT_PROPERTIES: Final = FindingRule(
    "client-properties",
    "A Java client properties file is not valid.",
    "Correct the reported line.",
)
REQUESTS: Final = FindingRule(
    "requests",
    "A file of requests cannot be read or is not valid.",
    "Use CSV or JSON lines with the columns user, client_id and ip.",
)
TABLE: Final = FindingRule(
    "table",
    "A table of Spark cannot be read, or does not have the columns or rows that are needed.",
    "Give a path of Parquet files or a table of the catalog that has them.",
)

# Policies.
POLICY: Final = FindingRule(
    "policy",
    "A declared entry violates a policy; the message names the policy and the constraint.",
    "Change the entry or the policy; no option allows a violation.",
    is_blocking=True,
)
BAD_POLICY: Final = FindingRule(
    "bad-policy",
    "A file in `policies` cannot be used: it is missing, too large, not JSON, not a JSON Schema, or refers to fields "
    "that entries do not have.",
    "Correct the reported location; `quotaform schema entry` prints the fields of an entry.",
)
SLOW_POLICY: Final = FindingRule(
    "slow-policy",
    "A policy took too long to evaluate, so not all entries were checked.",
    "Simplify its patterns and lists.",
    is_blocking=True,
)

# Lints.
SHADOWED_ENTRY: Final = FindingRule(
    "shadowed-entry",
    "An entry, or one of its keys, never applies: an entry of a higher level has a value for every request that it "
    "matches. For example, a client-id entry never applies if `user=<default>` has the same key.",
    "Remove the key from one of the two entries.",
    _WARNING,
    is_lint=True,
)
RENAMABLE_CLIENT_ID: Final = FindingRule(
    "renamable-client-id",
    "A client can evade the limit of its client-id by sending another client-id, which has a higher limit or none. "
    "Likewise, no entry with a client-id matches an empty client-id.",
    "Limit the user instead, or declare the default client-id with a value that is not higher.",
    _WARNING,
    is_lint=True,
)
DEFAULT_USER_BROKERS: Final = FindingRule(
    "default-user-brokers",
    "A default user entry also limits the principals of the brokers, whose requests to each other are then throttled, "
    "and that of quotaform. A note if `principals.brokers` is not configured.",
    "Declare each of these principals with its own values, and list those of the brokers in `principals.brokers`.",
    _WARNING,
    is_lint=True,
)
SUSPICIOUS_UNIT: Final = FindingRule(
    "suspicious-unit",
    "A byte rate is a number below 1024 without a unit, which is bytes per second; the unit is probably missing.",
    "Add the unit: `10MiB/s`, or `10B/s` for bytes.",
    _WARNING,
    is_lint=True,
)
EXPIRES_SOON: Final = FindingRule(
    "expires-soon",
    "An entry expires within 14 days, or `lints.expires_within_days`; it is then treated as absent.",
    "Set a later date, or let it expire.",
    _WARNING,
    is_lint=True,
)
IAM_SESSION: Final = FindingRule(
    "iam-session",
    "A user is a session of an AWS role (`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`), as Amazon MSK names clients"
    " that authenticate with IAM, or the role itself, which no client is. Unless the client sets the session name, it"
    " changes with each deployment, and the quota then stops applying.",
    "Declare `user=<default>,client-id=NAME`; or set `awsRoleSessionName` in the client and ignore the finding.",
    _WARNING,
    is_lint=True,
)
OVER_CAPACITY: Final = FindingRule(
    "over-capacity",
    "The sum of the declared limits of a key exceeds the `capacity` of the cluster. A default counts once, however "
    "many users, client-ids or addresses it applies to; shadowed entries and unlimited values do not count.",
    "Reduce some limits, or correct the capacity.",
    _WARNING,
    is_lint=True,
)
OTHER_WARNINGS: Final = FindingRule(
    "other-warnings",
    "There are lint warnings or notes about entries that the plan does not change.",
    "`quotaform validate` lists them.",
    _NOTE,
)
LINT_IGNORE_UNUSED: Final = FindingRule(
    "lint-ignore-unused", "An item of `lints.ignore` matches no finding.", "Remove it.", _NOTE
)
LINT_IGNORE_EXPIRED: Final = FindingRule(
    "lint-ignore-expired",
    "An item of `lints.ignore` has expired and has no effect.",
    "Remove it, or set a later date.",
    _WARNING,
)

# Live entities and values.
UNKNOWN_TYPE: Final = FindingRule(
    "unknown-type", "A live entity has an unknown entity type.", "None needed; the entity is left unchanged.", _WARNING
)
EMPTY_NAME: Final = FindingRule(
    "empty-name",
    "A live entity has an empty name, which brokers can neither change nor remove (KAFKA-16411).",
    "None available; the entity is left unchanged.",
    _WARNING,
)
IP_NAME: Final = FindingRule(
    "ip-name",
    "An ip is not an IP address in its canonical form.",
    "Use the canonical address; remove a live entry with `quotaform alter --delete`.",
    _WARNING,
)
IP_ALIAS: Final = FindingRule(
    "ip-alias",
    "Several entities, or an entity and the request, spell the same address differently, but an address has one limit.",
    "Use only the canonical spelling.",
    _WARNING,
)
MISFIT_KEY: Final = FindingRule(
    "misfit-key",
    "A live entity has a key that is not valid for its entity types.",
    "Declare the entity to remove the key; until then it is left unchanged.",
    _WARNING,
)
NAN_VALUE: Final = FindingRule(
    "nan-value",
    "A live value is NaN, which limits nothing for some requests and blocks others.",
    "Declare the entity with a value, or remove the key.",
    _WARNING,
)
INEXACT_VALUE: Final = FindingRule(
    "inexact-value",
    "A live value cannot be represented in files: infinite, not above 0, a fraction, or too large.",
    "Declare the entity with a value; until then it is left unchanged.",
    _WARNING,
)

# Plans.
CLUSTER_ID: Final = FindingRule(
    "cluster-id",
    "The cluster id differs from the one pinned in quotaform.yaml.",
    "Check the bootstrap servers; change `cluster_id` in quotaform.yaml only if the cluster was replaced on purpose.",
    is_blocking=True,
)
SAME_CLUSTER: Final = FindingRule(
    "same-cluster",
    "Two clusters of quotaform.yaml are the same live cluster.",
    "Correct `bootstrap_servers` of one of them, and pin each with `cluster_id`; or remove one.",
    _WARNING,
)
SAME_CLUSTER_CONFLICT: Final = FindingRule(
    "same-cluster-conflict",
    "Two clusters of quotaform.yaml are the same live cluster, and their plans would undo each other.",
    "Correct `bootstrap_servers` of one of them, and pin each with `cluster_id`; or remove one.",
    is_blocking=True,
)
EMPTY: Final = FindingRule(
    "empty",
    "The files declare no entries for a cluster, or the quotas directory does not exist.",
    "Check the directory; if no entry should be declared, allow it.",
    is_blocking=True,
    is_allowable=True,
)
SHRINK: Final = FindingRule(
    "shrink",
    "The files declare less than half of the entities that the base declares, and at least 5 fewer.",
    "Check that no file is missing; remove the entities in several steps, or allow it.",
    is_blocking=True,
    is_allowable=True,
)
DELETE: Final = FindingRule(
    "delete",
    "A plan deletes more entities than `guards.delete` allows, or all managed entities: the declared ones that are "
    "live, and those that the plan deletes.",
    "Check the plan; allow the number of deletes if all of them are intended.",
    is_blocking=True,
    is_allowable=True,
    takes_number=True,
)
UPDATE: Final = FindingRule(
    "update",
    "A plan updates more entities than `guards.update` allows.",
    "Check the plan; allow the number of updates if all of them are intended.",
    is_blocking=True,
    is_allowable=True,
    takes_number=True,
)
CHANGE_FACTOR: Final = FindingRule(
    "change-factor",
    "A value, or the effective limit after a value is removed, changes by a factor of `guards.change_factor` (10) or "
    "more, up or down. For a change to unlimited, see `to-unlimited`.",
    "Check the unit; allow the change if it is intended.",
    is_blocking=True,
    is_allowable=True,
    is_approvable=True,
)
NEW_VALUE_FACTOR: Final = FindingRule(
    "new-value-factor",
    "A new value differs by a factor of `guards.change_factor` (10) or more from the limit that applies to the entity "
    "now, for example that of a default.",
    "Check the unit; if the value is intended, there is nothing to do.",
    _WARNING,
)
TO_UNLIMITED: Final = FindingRule(
    "to-unlimited",
    "An effective limit becomes unlimited.",
    "Declare a value, or a default that applies instead; allow the change if it is intended.",
    is_blocking=True,
    is_allowable=True,
    is_approvable=True,
)
DEFAULT_ENTITY: Final = FindingRule(
    "default-entity",
    "A plan changes `user=<default>`, `client-id=<default>`, `user=<default>,client-id=<default>` or `ip=<default>`, "
    "which apply to everybody without an entry of their own.",
    "Check who has no entry; allow the change if it is intended.",
    is_blocking=True,
    is_allowable=True,
    is_approvable=True,
)
PROTECT: Final = FindingRule(
    "protect",
    "A plan deletes a protected entity, or a change to any entry reduces one of its effective limits to half or less.",
    "Add an approval for the entity to `approvals.yaml`.",
    is_blocking=True,
    is_approvable=True,
)
GUARDS_LOOSENED: Final = FindingRule(
    "guards-loosened",
    "Compared with the base, the files loosen `guards` or `protect`, prune more, widen `scope`, change or remove a "
    "policy or `cluster_id`, remove `confirm` or a path from `roots`; or quotaform.yaml of the base cannot be read, so "
    "this is unknown.",
    "Make these changes separately first, or make the base readable; allow it if it is intended.",
    is_blocking=True,
    is_allowable=True,
)
UNUSED_ALLOWANCE: Final = FindingRule(
    "unused-allowance",
    "An `--allow` option had no effect.",
    "Remove the option.",
    _NOTE,
)
UNUSED_APPROVAL: Final = FindingRule(
    "unused-approval",
    "An approval had no effect: there is no finding of its rule for its entity.",
    "Remove it if the change has been applied; otherwise correct the rule or the address.",
    _NOTE,
)
NEW_APPROVAL: Final = FindingRule(
    "new-approval",
    "A plan depends on an approval that is new or has changed since the base.",
    "Review the approval with the change.",
    _NOTE,
)
APPROVAL_PATTERN: Final = FindingRule(
    "approval-pattern",
    "A plan depends on an approval with a pattern for its entities or clusters; the finding lists what it matches.",
    "Check that the pattern matches nothing else than what was reviewed.",
    _NOTE,
)
UNBOUND_APPROVAL: Final = FindingRule(
    "unbound-approval",
    "An approval without `to` lifts a rule about a value, and will lift it for any other value until it expires.",
    "Add `to` with the reviewed value.",
    _WARNING,
)
EXPIRED_APPROVAL: Final = FindingRule(
    "expired-approval",
    "An approval has expired and has no effect.",
    "Remove it, or ask for a new approval.",
    _WARNING,
)
NO_MATCH: Final = FindingRule(
    "no-match",
    "A `--select` pattern matches no entity.",
    "Correct the pattern; patterns begin with an entity type, as in `user=svc-*`.",
    _WARNING,
)
UNKNOWN_COMMIT: Final = FindingRule(
    "unknown-commit",
    "The files are in a git work tree, but their commit could not be read, so the plan does not contain it.",
    "Install git, or follow the message.",
    _WARNING,
)
NO_LONGER_DECLARED: Final = FindingRule(
    "no-longer-declared",
    "A live entity was removed from the files but stays on the cluster. The git history is searched along the first "
    "parents of HEAD, within limits: see `history-not-searched`.",
    "To delete it, declare it with `state: absent`.",
    _WARNING,
)
HISTORY_NOT_SEARCHED: Final = FindingRule(
    "history-not-searched",
    "Not all earlier files were searched for entities that are no longer declared: the clone is shallow, or a limit "
    "was reached (500 commits, 64 MiB read, 3 seconds, 2 MiB per file, 4 MiB parsed).",
    "Review the undeclared entities with `--show-unmanaged`; in a shallow clone, fetch the history.",
    _NOTE,
)
REVERT_DIFFERS: Final = FindingRule(
    "revert-differs",
    "The files declare other values than those that a revert restores, or their values are unknown.",
    "Revert the commit that changed the entries, or declare the restored values; otherwise the next plan makes the "
    "change again.",
    _WARNING,
)
REVERT_LEAVES: Final = FindingRule(
    "revert-leaves",
    "Some entities already had the planned values, so the apply did not change them, and its revert does not either.",
    "Revert the apply that changed them, with its receipt, or declare the values that they should have.",
    _NOTE,
)
REVERT_UNMANAGED: Final = FindingRule(
    "revert-unmanaged",
    "A revert changes entities that are out of scope or that another quota repository declares, or it is unknown what "
    "the other repositories declare.",
    "Leave the entities out with `--exclude`; allow it if it is intended.",
    is_blocking=True,
    is_allowable=True,
)
REVERT_POLICY: Final = FindingRule(
    "revert-policy",
    "A revert restores a value that violates a policy, or the policies are invalid.",
    "Declare a value that complies with the policies afterwards.",
    _WARNING,
)

# Drift.
DRIFT_MODIFIED: Final = FindingRule(
    "drift-modified",
    "A live entity has other values than the files or the baseline.",
    "Apply the files, or declare the live values.",
    _WARNING,
)
DRIFT_MISSING: Final = FindingRule(
    "drift-missing",
    "An entity that the files or the baseline declare is not on the cluster.",
    "Apply the files, or remove the entry.",
    _WARNING,
)
DRIFT_UNEXPECTED: Final = FindingRule(
    "drift-unexpected",
    "Neither the files nor the baseline declare a live entity.",
    "Declare it, or delete it from the cluster.",
    _WARNING,
)
DRIFT_IGNORE_EXPIRED: Final = FindingRule(
    "drift-ignore-expired",
    "An item of `drift_ignore` has expired and has no effect.",
    "Remove the item, or set a later date.",
    _WARNING,
)
DRIFT_IGNORE_EXPIRES: Final = FindingRule(
    "drift-ignore-expires",
    "An item of `drift_ignore` expires within seven days.",
    "Apply the files, declare the live values, or set a later date.",
    _WARNING,
)
DRIFT_IGNORE_UNUSED: Final = FindingRule(
    "drift-ignore-unused",
    "An item of `drift_ignore` matches no drift at present.",
    "Remove the item if it is no longer needed.",
    _NOTE,
)
BASELINE_VALUES_UNKNOWN: Final = FindingRule(
    "baseline-values-unknown",
    "The receipt used as the baseline does not contain all values of some entities that differ, and they cannot be "
    "read from its commit, so their pending changes count as drift.",
    "Fetch the git history (`fetch-depth: 0`), or use a git ref as the baseline.",
    _NOTE,
)

# The base that the files are compared with, and what is pruned.
BASE_UNREADABLE: Final = FindingRule(
    "base-unreadable",
    "The base from the CI system could not be read, so the changes of the plan have no origin.",
    "Fetch the history (`fetch-depth: 0`), set another base with `--base`, or use `--no-base`.",
    _WARNING,
)
BASE_INVALID: Final = FindingRule(
    "base-invalid",
    "The files at the base are invalid, so the changes of the plan have no origin.",
    "Use a base with valid files, or `--no-base`.",
    _WARNING,
)
BASE_EMPTY: Final = FindingRule(
    "base-empty",
    "The base declares nothing for the cluster, so every change has the origin `config`.",
    "None needed if the files or the cluster are new; otherwise use another base.",
    _NOTE,
)
BASE_NOT_CONTAINED: Final = FindingRule(
    "base-not-contained",
    "The commit that is checked out does not contain the base, so the files are compared with the commit where both "
    "parted.",
    "Merge the base, or rebase onto it, before applying: what was merged into the base meanwhile is missing here.",
    _WARNING,
)
CLUSTER_REMOVED: Final = FindingRule(
    "cluster-removed",
    "A cluster in quotaform.yaml of the base is no longer in quotaform.yaml: it was removed or renamed.",
    "Restore it, unless its quotas should stay on it unmanaged; `prune` deletes nothing there. Give a renamed cluster "
    "its previous `cluster_id`.",
    _WARNING,
)
PRUNE_UNKNOWN: Final = FindingRule(
    "prune-unknown",
    "With `prune: removed`, it is unknown which live entities the files declared before, because there is neither a "
    "base nor a receipt of this cluster, or the files changed more since than the receipts show.",
    "Set a git revision or a receipt with `--base`, or use `prune: report`.",
    is_blocking=True,
)
RECEIPT_IGNORED: Final = FindingRule(
    "receipt-ignored",
    "A receipt next to quotaform.yaml is not used as that of the last apply, because it is committed to git, where "
    "anybody who can change the files could have written it, or is dated in the future.",
    "Remove it from git and add `.quotaform/` to `.gitignore`; to use it anyway, pass it with `--base`.",
    _WARNING,
)
NOT_PRUNED: Final = FindingRule(
    "not-pruned",
    "A plan with `--select` or `--exclude` deletes no undeclared entities, whatever the prune mode.",
    "Plan without a selection.",
    _NOTE,
)

# Users and their credentials.
UNKNOWN_PRINCIPAL: Final = FindingRule(
    "unknown-principal",
    "A declared user has no SCRAM credentials on the cluster.",
    "Correct the name, or create the credentials.",
    _WARNING,
)
NO_SCRAM: Final = FindingRule(
    "no-scram",
    "The cluster has no SCRAM credentials, so declared users were not checked.",
    "None needed if clients use another mechanism to authenticate.",
    _NOTE,
)

# Resolved requests.
EMPTY_CLIENT_ID: Final = FindingRule(
    "empty-client-id",
    "A request has an empty client-id, so no entry with a client-id matches (KAFKA-13341); a warning if such entries "
    "exist.",
    "Use the client-id that the client sends, or omit it to resolve one that no quota mentions.",
    _NOTE,
)
DEFAULT_WORD: Final = FindingRule(
    "default-word",
    "A requested name is `<default>`, which is not a name that requests have.",
    "Use a name; defaults apply to any name without its own entry.",
    _WARNING,
)
ODD_VALUE: Final = FindingRule(
    "odd-value",
    "An effective value does not limit requests as its number suggests.",
    "Set a value that can be represented in files.",
    _WARNING,
)
UNKNOWN_SHAPE: Final = FindingRule(
    "unknown-shape",
    "Live entries have a combination of entity types that quotaform does not recognise.",
    "See the documentation of the brokers; these entries are not resolved.",
    _NOTE,
)
QUOTA_CALLBACK: Final = FindingRule(
    "quota-callback",
    "A broker has a `client.quota.callback.class` (KIP-257), which may override the resolved quotas.",
    "See the callback's documentation.",
    _WARNING,
)
QUOTA_CALLBACK_UNCHECKED: Final = FindingRule(
    "quota-callback-unchecked",
    "The `client.quota.callback.class` of a broker could not be read.",
    "Grant the principal DescribeConfigs on the cluster.",
    _NOTE,
)
PLAN_BLOCKED: Final = FindingRule(
    "plan-blocked",
    "The plan given with `--plan` is blocked and cannot be applied.",
    "Resolve its blocking findings and make a new plan.",
    _WARNING,
)
PLAN_STALE: Final = FindingRule(
    "plan-stale",
    "The cluster has changed since the plan given with `--plan` was made, so it cannot be applied.",
    "Make a new plan.",
    _WARNING,
)

RULES: Final[Mapping[str, FindingRule]] = {
    row.id: row for row in tuple(globals().values()) if isinstance(row, FindingRule)
}
"""All rules by id, in the order of this module."""

RULE_IDS.extend(RULES)

LINTS: Final[Mapping[str, FindingRule]] = {name: row for name, row in RULES.items() if row.is_lint}
"""The rules that `lints.ignore` can ignore."""
APPROVABLE: Final = tuple(row.id for row in RULES.values() if row.is_approvable)
"""The rules that approvals.yaml can lift for one entity."""


_ALLOWED: Final = {row.id: row for row in RULES.values() if row.is_allowable}


def read_allowances(texts: Iterable[str]) -> tuple[Allowance, ...]:
    """Read the values of `--allow`.

    >>> read_allowances(["delete=8", "to-unlimited"])
    (Allowance(rule='delete', number=8), Allowance(rule='to-unlimited', number=None))

    Raises `UsageError` if one is not RULE or RULE=N, its rule is unknown or cannot be allowed, a number is missing or
    one too many, or a rule has two numbers.
    """
    found: dict[str, Allowance] = {}
    for text in texts:
        allowance = _read(text)
        first = found.setdefault(allowance.rule, allowance)
        if first != allowance:
            raise UsageError(f"{ALLOW} {allowance.rule} is given with two numbers; give the number of the plan")
    return tuple(sorted(found.values()))


def allowed_rules() -> tuple[str, ...]:
    """The rules that can be allowed, as they are given; one that takes a number ends in `=`."""
    return tuple(f"{row.id}=" if row.takes_number else row.id for row in _ALLOWED.values())


def _read(text: str) -> Allowance:
    name, separator, number = text.partition("=")
    row = _ALLOWED.get(name)
    if row is None:
        raise UsageError(_unknown_text(name))
    if not row.takes_number:
        if separator:
            raise UsageError(f"{ALLOW} {name} takes no number; write {row.override}")
        return Allowance(name)
    if not (number.isascii() and number.isdigit() and len(number) < len(str(2**53))):
        problem = f"{quote(number)} is not a number" if separator else "the number is missing"
        raise UsageError(f"{ALLOW} {name}: {problem}; write {row.override}, with the number that the plan shows")
    return Allowance(name, int(number))


def _unknown_text(name: str) -> str:
    known: FindingRule | None = RULES.get(name)
    if known is not None and known.is_blocking:
        remedy = f"{known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
        return f"{ALLOW} {name}: no option allows this rule; {remedy}"
    return f"{ALLOW} {quote(name)}: there is no such rule{did_you_mean(name, _ALLOWED) or '.'} The rules are " + (
        ", ".join(f"{row.id}=N" if row.takes_number else row.id for row in _ALLOWED.values())
    )
