"""The table of rules: one row per kind of finding in files, plans and clusters.

A finding is created from its row: `rule.BAD_MATCH.finding("...", location=...)`. The message describes one finding;
the row contains the general meaning and remedy, from which `docs/rules.md` is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from quotaform.model.errors import ArgumentError
from quotaform.model.finding import APPROVALS_NAME, RULE_IDS, Allowance, Finding, Location, Severity, by_place
from quotaform.model.text import did_you_mean, option_of, quote


class FindingRule(Struct, frozen=True):
    """A rule: one thing that can be found in files, in a plan or on a cluster.

    The rows are in `quotaform.model.rule`, and every finding is made from one of them.
    """

    summary: str  # what a finding of this rule means, in one sentence
    remedy: str  # what to do about it, in one sentence
    id: str = ""  # its short, stable name, as findings show it: that of its row
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
            return f"{option_of('allow')} {self.id}{'=N' if self.takes_number else ''}"
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

        >>> str(FindingRule("An entry has no values.", "Write some.", "no-values").finding("user=a has no values"))
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


_error: Final = FindingRule
_warning: Final = partial(FindingRule, severity=Severity.WARNING)
_note: Final = partial(FindingRule, severity=Severity.NOTE)
_lint: Final = partial(_warning, is_lint=True)
_blocking: Final = partial(FindingRule, is_blocking=True)
_allowable: Final = partial(_blocking, is_allowable=True)
_countable: Final = partial(_allowable, takes_number=True)
_approvable: Final = partial(_blocking, is_approvable=True)
_liftable: Final = partial(_allowable, is_approvable=True)

# Reading files.
MISSING_CONFIG: Final = _error(
    "The given quotaform.yaml does not exist, or the one that is there is called quotaform.yml.",
    f"Create or rename it, or give another path with `{option_of('config')}`.",
)
UNREADABLE: Final = _error("A file or directory cannot be read.", "Check that it exists and is readable.")
NOT_UTF8: Final = _error("A file is not UTF-8 text.", "Save the file as UTF-8.")
EMPTY_DIRECTORY: Final = _error(
    "The quotas directory does not exist or contains no YAML file.", "Add a file; `quotas: []` declares no quotas."
)
NOTHING_DECLARED: Final = _warning(
    "The files are valid but declare nothing for a cluster; `empty` blocks a plan for it.",
    f"Declare its entities; if none should be declared, plan with `{option_of('allow')} empty`.",
)
UNKNOWN_CLUSTER: Final = _error(
    "A subdirectory of the quotas directory is not named after a cluster, so it is not read.",
    "Rename it to a cluster of quotaform.yaml, or add the cluster there.",
)
NESTED_DIRECTORY: Final = _error(
    "The directory of a cluster contains a subdirectory, which is not read.",
    "Move its files to the directory of the cluster.",
)
UNREAD_FILE: Final = _error(
    "A file in the quotas directory is not read because of its name.",
    "Rename it to `.yaml` or `.yml`, or move it elsewhere.",
)
DISABLED_FILE: Final = _warning(
    "A file in the quotas directory looks like a YAML file that was disabled by renaming it (`.bak`, `.disabled`, "
    "`.yaml.old`), so its entities count as not declared.",
    "Rename it to `.yaml` if its entries should count; otherwise move it elsewhere. To remove a quota from the "
    "cluster, use `state: absent`.",
)

# YAML.
YAML_SYNTAX: Final = _error("A file is not valid YAML.", "Correct the reported location.")
YAML_TAG: Final = _error("A value has a YAML tag, which is not supported.", "Remove the tag.")
MULTI_DOCUMENT: Final = _error("A file contains more than one YAML document.", "Remove the `---`, or split the file.")
DUPLICATE_KEY: Final = _error("A mapping has the same key twice.", "Remove one of the two.")
BAD_MERGE: Final = _error(
    "The value of a merge key `<<` is not a mapping.", "Write `<<: *name` or `<<: [*first, *second]`."
)
UNKNOWN_ALIAS: Final = _error(
    "An alias `*name` has no anchor `&name` before it.", "Write the anchor first, or correct the name."
)
RECURSIVE_ALIAS: Final = _error("An alias is part of the value of its own anchor.", "Replace the alias with the value.")
ALIAS_BOMB: Final = _error("The aliases of a file expand to too many values.", "Use fewer aliases.")
TOO_DEEP: Final = _error("A file is nested too deeply.", "Reduce the nesting.")
TOO_LARGE: Final = _error("An entry, a list, a text or a pattern is larger than allowed.", "Divide it, or shorten it.")
UNFORMATTABLE: Final = _error(
    "`quotaform fmt` cannot rewrite a file without changing what it declares.",
    "Simplify the file, or leave it unformatted.",
)
MORE_PROBLEMS: Final = _note(
    "There are more problems than are shown.", "Correct the problems shown, and validate again."
)
MORE_WARNINGS: Final = _note("There are more warnings and notes than are shown.", "Correct those shown first.")

# Validation against a JSON Schema.
UNKNOWN_FIELD: Final = _error("A field is unknown.", "Correct or remove it.")
MISSING_FIELD: Final = _error("A required field is missing.", "Add the field.")
EMPTY_FIELD: Final = _error("A field must not be empty.", "Add a value, or remove the field.")
WRONG_TYPE: Final = _error("The value of a field has the wrong type.", "Use the expected type; quote strings.")
BAD_CHOICE: Final = _error("The value is not one of the allowed values.", "Use an allowed value.")
BAD_TEXT: Final = _error("A string does not match the pattern of its field.", "Use the expected form.")
BAD_FIELD: Final = _error("The value of a field is not valid.", "Correct the value.")
BAD_SHAPE: Final = _error(
    "Part of a file does not match its JSON Schema; for a live entity (a warning): a combination of entity types that "
    "no broker resolves.",
    "Compare it with the output of `quotaform schema`; a live entity is left unchanged.",
)
BAD_MAPPING: Final = _error(
    "The fields of a mapping for a table of usage do not fit together.",
    "Name the columns of rows of metrics (ts, metric, value) or of rows of buckets (ts, key, rate).",
)

# quotaform.yaml.
BAD_CLUSTER: Final = _error(
    "The settings of a cluster conflict.", "Set either bootstrap_servers (and command_config) or snapshot."
)
BAD_SERVER: Final = _error("A bootstrap server is not HOST:PORT.", "Write it as `broker-1:9092`.")
BAD_METRICS: Final = _error(
    "A source of measurements of a cluster is not one, or there are two of one broker.",
    "Write `1=http://broker-1:7071/metrics` or `jmx:broker-1:9999`.",
)
BAD_VARIABLE: Final = _error(
    "A string contains a `${...}` other than `${env:NAME}`, or one where variables are not expanded.",
    "Use `${env:NAME}`, in client properties, bootstrap_servers and command_config only.",
)
FORBIDDEN_VARIABLE: Final = _error("A referenced environment variable may not be read.", "List it in `QUOTAFORM_ENV`.")
FORBIDDEN_HOST: Final = _error(
    "`quotaform.yaml` names a host that the client properties or `QUOTAFORM_ALLOWED_HOSTS` do not allow.",
    "Correct the host, or list it there.",
)
UNSET_VARIABLE: Final = _error("A referenced environment variable is not set, or is empty.", "Set the variable.")

# approvals.yaml.
BAD_APPROVAL: Final = _error(
    "An approval names a rule that cannot be approved, its address is not valid, or no cluster matches.",
    "Use a rule that can be approved for an entity, an address as printed by plans, and a cluster of quotaform.yaml.",
)
DUPLICATE_APPROVAL: Final = _error("A rule is approved twice for one entity.", "Remove one of the two.")

# The entries of quotas.d.
BAD_MATCH: Final = _error(
    "The match of an entry is not a combination of entity types that Kafka supports.",
    "Use user, client-id, both, or only ip.",
)
BAD_NAME: Final = _error(
    "A name is not valid; for a live entity (a warning): it cannot be sent to a broker.",
    "Correct or quote the name; a live entity is left unchanged.",
)
ODD_NAME: Final = _warning("A name is valid but probably a mistake.", "Check the name; Kafka uses it literally.")
BAD_KEY: Final = _error(
    "A key is not a string, or a quota key is not valid for the entity types of its entry.",
    "Use one of the listed keys; quote strings.",
)
UNKNOWN_KEY: Final = _error(
    "A quota key is unknown; for a live entity this is a note.",
    "Correct the name in the file; the key of a live entity is left unchanged.",
)
BAD_VALUE: Final = _error("A value is not valid for its quota key.", "Use the unit of the key, or `unlimited`.")
NO_VALUES: Final = _error(
    "An entry declares no values.", "Add values, a profile or `state: absent`, or remove the entry."
)
UNKNOWN_PROFILE: Final = _error(
    "The profile of an entry is not defined in quotaform.yaml.", "Correct the name, or define the profile."
)
BAD_STATE: Final = _error(
    "An entry with `state: absent` has a field that does not apply to it.", "Remove the field or the state."
)
BAD_UNSET: Final = _error(
    "`unset` lists a key that it cannot remove.",
    "Use it in a cluster's layer, for keys that the common entry declares and the layer does not set.",
)
BAD_DATE: Final = _error("The date is not valid.", "Write it as `2026-12-31`.")
EXPIRED: Final = _note(
    "An entry has expired and is treated as absent.", "Remove the entry after the entity has been deleted."
)
DUPLICATE_ENTITY: Final = _error(
    "An entity is declared twice in one layer, or appears twice in a snapshot.", "Remove one of the two."
)
TOO_MANY_ENTITIES: Final = _error("A file declares too many entities; lists in a match multiply.", "Divide the file.")
OUT_OF_SCOPE: Final = _error(
    "An entry is outside of the scope set in quotaform.yaml.",
    "Remove the entry, or extend the scope; `*` does not stand for a default, which is written `<default>`.",
)

CLAIMED_TWICE: Final = _error(
    "Two quota repositories declare the same entity for one cluster. Clusters are the same if their pinned ids are "
    "equal or, if an id is not pinned, their names.",
    "Declare the entity in only one of the repositories.",
)
BAD_ROOT: Final = _error(
    "A path in `roots` of quotaform.yaml is not another quota repository, or must not be read.",
    "Use the path of a quotas directory, or of its parent, in the same git work tree or next to this repository.",
)
PRUNE_SCOPE: Final = _error(
    "`prune: scope` deletes every undeclared entity in scope, but quotaform.yaml does not define the scope.",
    "Add `scope` with `include`, or use another mode.",
)

# Other files.
SNAPSHOT: Final = _error(
    "A snapshot file cannot be read or is not valid.", "Create it again with `quotaform snapshot`."
)
CLIENT_PROPERTIES: Final = _error("A Java client properties file is not valid.", "Correct the reported line.")
REQUESTS: Final = _error(
    "A file of requests cannot be read or is not valid.",
    "Use CSV or JSON lines with the columns user, client_id and ip.",
)
TABLE: Final = _error(
    "A table of Spark cannot be read, or does not have the columns or rows that are needed.",
    "Give a path of Parquet files or a table of the catalog that has them.",
)

# Policies.
POLICY: Final = _blocking(
    "A declared entry violates a policy; the message names the policy and the constraint.",
    "Change the entry or the policy; no option allows a violation.",
)
BAD_POLICY: Final = _error(
    "A file in `policies` cannot be used: it is missing, too large, not JSON, not a JSON Schema, or refers to fields "
    "that entries do not have.",
    "Correct the reported location; `quotaform schema entry` prints the fields of an entry.",
)
SLOW_POLICY: Final = _blocking(
    "A policy took too long to evaluate, so not all entries were checked.", "Simplify its patterns and lists."
)

# Lints.
SHADOWED_ENTRY: Final = _lint(
    "An entry, or one of its keys, never applies: an entry of a higher level has a value for every request that it "
    "matches. For example, a client-id entry never applies if `user=<default>` has the same key.",
    "Remove the key from one of the two entries.",
)
RENAMABLE_CLIENT_ID: Final = _lint(
    "A client can evade the limit of its client-id by sending another client-id, which has a higher limit or none. "
    "Likewise, no entry with a client-id matches an empty client-id.",
    "Limit the user instead, or declare the default client-id with a value that is not higher.",
)
DEFAULT_USER_BROKERS: Final = _lint(
    "A default user entry also limits the principals of the brokers, whose requests to each other are then throttled, "
    "and that of quotaform. A note if `principals.brokers` is not configured.",
    "Declare each of these principals with its own values, and list those of the brokers in `principals.brokers`.",
)
SUSPICIOUS_UNIT: Final = _lint(
    "A byte rate is a number below 1024 without a unit, which is bytes per second; the unit is probably missing.",
    "Add the unit: `10MiB/s`, or `10B/s` for bytes.",
)
EXPIRES_SOON: Final = _lint(
    "An entry expires within 14 days, or `lints.expires_within_days`; it is then treated as absent.",
    "Set a later date, or let it expire.",
)
IAM_SESSION: Final = _lint(
    "A user is a session of an AWS role (`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`), as Amazon MSK names clients"
    " that authenticate with IAM, or the role itself, which no client is. Unless the client sets the session name, it"
    " changes with each deployment, and the quota then stops applying.",
    "Declare `user=<default>,client-id=NAME`; or set `awsRoleSessionName` in the client and ignore the finding.",
)
OVER_CAPACITY: Final = _lint(
    "The sum of the declared limits of a key exceeds the `capacity` of the cluster. A default counts once, however "
    "many users, client-ids or addresses it applies to; shadowed entries and unlimited values do not count.",
    "Reduce some limits, or correct the capacity.",
)
OTHER_WARNINGS: Final = _note(
    "There are lint warnings or notes about entries that the plan does not change.", "`quotaform validate` lists them."
)
LINT_IGNORE_UNUSED: Final = _note("An item of `lints.ignore` matches no finding.", "Remove it.")
LINT_IGNORE_EXPIRED: Final = _warning(
    "An item of `lints.ignore` has expired and has no effect.", "Remove it, or set a later date."
)

# Live entities and values.
UNKNOWN_TYPE: Final = _warning(
    "A live entity has an unknown entity type.", "None needed; the entity is left unchanged."
)
EMPTY_NAME: Final = _warning(
    "A live entity has an empty name, which brokers can neither change nor remove (KAFKA-16411).",
    "None available; the entity is left unchanged.",
)
IP_NAME: Final = _warning(
    "An ip is not an IP address in its canonical form.",
    f"Use the canonical address; remove a live entry with `quotaform alter {option_of('delete')}`.",
)
IP_ALIAS: Final = _warning(
    "Several entities, or an entity and the request, spell the same address differently, but an address has one limit.",
    "Use only the canonical spelling.",
)
MISFIT_KEY: Final = _warning(
    "A live entity has a key that is not valid for its entity types.",
    "Declare the entity to remove the key; until then it is left unchanged.",
)
NAN_VALUE: Final = _warning(
    "A live value is NaN, which limits nothing for some requests and blocks others.",
    "Declare the entity with a value, or remove the key.",
)
INEXACT_VALUE: Final = _warning(
    "A live value cannot be represented in files: infinite, not above 0, a fraction, or too large.",
    "Declare the entity with a value; until then it is left unchanged.",
)

# Plans.
CLUSTER_ID: Final = _blocking(
    "The cluster id differs from the one pinned in quotaform.yaml.",
    "Check the bootstrap servers; change `cluster_id` in quotaform.yaml only if the cluster was replaced on purpose.",
)
SAME_CLUSTER: Final = _warning(
    "Two clusters of quotaform.yaml are the same live cluster.",
    "Correct `bootstrap_servers` of one of them, and pin each with `cluster_id`; or remove one.",
)
SAME_CLUSTER_CONFLICT: Final = _blocking(
    "Two clusters of quotaform.yaml are the same live cluster, and their plans would undo each other.",
    "Correct `bootstrap_servers` of one of them, and pin each with `cluster_id`; or remove one.",
)
EMPTY: Final = _allowable(
    "The files declare no entries for a cluster, or the quotas directory does not exist.",
    "Check the directory; if no entry should be declared, allow it.",
)
SHRINK: Final = _allowable(
    "The files declare less than half of the entities that the base declares, and at least 5 fewer.",
    "Check that no file is missing; remove the entities in several steps, or allow it.",
)
DELETE: Final = _countable(
    "A plan deletes more entities than `guards.delete` allows, or all managed entities: the declared ones that are "
    "live, and those that the plan deletes.",
    "Check the plan; allow the number of deletes if all of them are intended.",
)
UPDATE: Final = _countable(
    "A plan updates more entities than `guards.update` allows.",
    "Check the plan; allow the number of updates if all of them are intended.",
)
CHANGE_FACTOR: Final = _liftable(
    "A value, or the effective limit after a value is removed, changes by a factor of `guards.change_factor` (10) or "
    "more, up or down. For a change to unlimited, see `to-unlimited`.",
    "Check the unit; allow the change if it is intended.",
)
NEW_VALUE_FACTOR: Final = _warning(
    "A new value differs by a factor of `guards.change_factor` (10) or more from the limit that applies to the entity "
    "now, for example that of a default.",
    "Check the unit; if the value is intended, there is nothing to do.",
)
TO_UNLIMITED: Final = _liftable(
    "An effective limit becomes unlimited.",
    "Declare a value, or a default that applies instead; allow the change if it is intended.",
)
DEFAULT_ENTITY: Final = _liftable(
    "A plan changes `user=<default>`, `client-id=<default>`, `user=<default>,client-id=<default>` or `ip=<default>`, "
    "which apply to everybody without an entry of their own.",
    "Check who has no entry; allow the change if it is intended.",
)
PROTECT: Final = _approvable(
    "A plan deletes a protected entity, or a change to any entry reduces one of its effective limits to half or less.",
    "Add an approval for the entity to `approvals.yaml`.",
)
GUARDS_LOOSENED: Final = _allowable(
    "Compared with the base, the files loosen `guards` or `protect`, prune more, widen `scope`, change or remove a "
    "policy or `cluster_id`, remove `confirm` or a path from `roots`; or quotaform.yaml of the base cannot be read, so "
    "this is unknown.",
    "Make these changes separately first, or make the base readable; allow it if it is intended.",
)
UNUSED_ALLOWANCE: Final = _note(f"An `{option_of('allow')}` option had no effect.", "Remove the option.")
UNUSED_APPROVAL: Final = _note(
    "An approval had no effect: there is no finding of its rule for its entity.",
    "Remove it if the change has been applied; otherwise correct the rule or the address.",
)
NEW_APPROVAL: Final = _note(
    "A plan depends on an approval that is new or has changed since the base.", "Review the approval with the change."
)
APPROVAL_PATTERN: Final = _note(
    "A plan depends on an approval with a pattern for its entities or clusters; the finding lists what it matches.",
    "Check that the pattern matches nothing else than what was reviewed.",
)
UNBOUND_APPROVAL: Final = _warning(
    "An approval without `to` lifts a rule about a value, and will lift it for any other value until it expires.",
    "Add `to` with the reviewed value.",
)
EXPIRED_APPROVAL: Final = _warning(
    "An approval has expired and has no effect.", "Remove it, or ask for a new approval."
)
NO_MATCH: Final = _warning(
    f"A `{option_of('select')}` pattern matches no entity.",
    "Correct the pattern; patterns begin with an entity type, as in `user=svc-*`.",
)
UNKNOWN_COMMIT: Final = _warning(
    "The files are in a git work tree, but their commit could not be read, so the plan does not contain it.",
    "Install git, or follow the message.",
)
NO_LONGER_DECLARED: Final = _warning(
    "A live entity was removed from the files but stays on the cluster. The git history is searched along the first "
    "parents of HEAD, within limits: see `history-not-searched`.",
    "To delete it, declare it with `state: absent`.",
)
HISTORY_NOT_SEARCHED: Final = _note(
    "Not all earlier files were searched for entities that are no longer declared: the clone is shallow, or a limit "
    "was reached (500 commits, 64 MiB read, 3 seconds, 2 MiB per file, 4 MiB parsed).",
    f"Review the undeclared entities with `{option_of('show_unmanaged')}`; in a shallow clone, fetch the history.",
)
REVERT_DIFFERS: Final = _warning(
    "The files declare other values than those that a revert restores, or their values are unknown.",
    "Revert the commit that changed the entries, or declare the restored values; otherwise the next plan makes the "
    "change again.",
)
REVERT_LEAVES: Final = _note(
    "Some entities already had the planned values, so the apply did not change them, and its revert does not either.",
    "Revert the apply that changed them, with its receipt, or declare the values that they should have.",
)
REVERT_UNMANAGED: Final = _allowable(
    "A revert changes entities that are out of scope or that another quota repository declares, or it is unknown what "
    "the other repositories declare.",
    f"Leave the entities out with `{option_of('exclude')}`; allow it if it is intended.",
)
REVERT_POLICY: Final = _warning(
    "A revert restores a value that violates a policy, or the policies are invalid.",
    "Declare a value that complies with the policies afterwards.",
)

# Drift.
DRIFT_MODIFIED: Final = _warning(
    "A live entity has other values than the files or the baseline.", "Apply the files, or declare the live values."
)
DRIFT_MISSING: Final = _warning(
    "An entity that the files or the baseline declare is not on the cluster.", "Apply the files, or remove the entry."
)
DRIFT_UNEXPECTED: Final = _warning(
    "Neither the files nor the baseline declare a live entity.", "Declare it, or delete it from the cluster."
)
DRIFT_IGNORE_EXPIRED: Final = _warning(
    "An item of `drift_ignore` has expired and has no effect.", "Remove the item, or set a later date."
)
DRIFT_IGNORE_EXPIRES: Final = _warning(
    "An item of `drift_ignore` expires within seven days.",
    "Apply the files, declare the live values, or set a later date.",
)
DRIFT_IGNORE_UNUSED: Final = _note(
    "An item of `drift_ignore` matches no drift at present.", "Remove the item if it is no longer needed."
)
BASELINE_VALUES_UNKNOWN: Final = _note(
    "The receipt used as the baseline does not contain all values of some entities that differ, and they cannot be "
    "read from its commit, so their pending changes count as drift.",
    "Fetch the git history (`fetch-depth: 0`), or use a git ref as the baseline.",
)

# The base that the files are compared with, and what is pruned.
BASE_UNREADABLE: Final = _warning(
    "The base from the CI system could not be read, so the changes of the plan have no origin.",
    f"Fetch the history (`fetch-depth: 0`), set another base with `{option_of('base')}`, or use "
    f"`{option_of('no_base')}`.",
)
BASE_INVALID: Final = _warning(
    "The files at the base are invalid, so the changes of the plan have no origin.",
    f"Use a base with valid files, or `{option_of('no_base')}`.",
)
BASE_EMPTY: Final = _note(
    "The base declares nothing for the cluster, so every change has the origin `config`.",
    "None needed if the files or the cluster are new; otherwise use another base.",
)
BASE_NOT_CONTAINED: Final = _warning(
    "The commit that is checked out does not contain the base, so the files are compared with the commit where both "
    "parted.",
    "Merge the base, or rebase onto it, before applying: what was merged into the base meanwhile is missing here.",
)
CLUSTER_REMOVED: Final = _warning(
    "A cluster in quotaform.yaml of the base is no longer in quotaform.yaml: it was removed or renamed.",
    "Restore it, unless its quotas should stay on it unmanaged; `prune` deletes nothing there. Give a renamed cluster "
    "its previous `cluster_id`.",
)
PRUNE_UNKNOWN: Final = _blocking(
    "With `prune: removed`, it is unknown which live entities the files declared before, because there is neither a "
    "base nor a receipt of this cluster, or the files changed more since than the receipts show.",
    f"Set a git revision or a receipt with `{option_of('base')}`, or use `prune: report`.",
)
RECEIPT_IGNORED: Final = _warning(
    "A receipt next to quotaform.yaml is not used as that of the last apply, because it is committed to git, where "
    "anybody who can change the files could have written it, or is dated in the future.",
    f"Remove it from git and add `.quotaform/` to `.gitignore`; to use it anyway, pass it with `{option_of('base')}`.",
)
NOT_PRUNED: Final = _note(
    f"A plan with `{option_of('select')}` or `{option_of('exclude')}` deletes no undeclared entities, whatever the "
    "prune mode.",
    "Plan without a selection.",
)

# Users and their credentials.
UNKNOWN_PRINCIPAL: Final = _warning(
    "A declared user has no SCRAM credentials on the cluster.", "Correct the name, or create the credentials."
)
NO_SCRAM: Final = _note(
    "The cluster has no SCRAM credentials, so declared users were not checked.",
    "None needed if clients use another mechanism to authenticate.",
)

# Resolved requests.
EMPTY_CLIENT_ID: Final = _note(
    "A request has an empty client-id, so no entry with a client-id matches (KAFKA-13341); a warning if such entries "
    "exist.",
    "Use the client-id that the client sends, or omit it to resolve one that no quota mentions.",
)
DEFAULT_WORD: Final = _warning(
    "A requested name is `<default>`, which is not a name that requests have.",
    "Use a name; defaults apply to any name without its own entry.",
)
ODD_VALUE: Final = _warning(
    "An effective value does not limit requests as its number suggests.",
    "Set a value that can be represented in files.",
)
UNKNOWN_SHAPE: Final = _note(
    "Live entries have a combination of entity types that quotaform does not recognise.",
    "See the documentation of the brokers; these entries are not resolved.",
)
QUOTA_CALLBACK: Final = _warning(
    "A broker has a `client.quota.callback.class` (KIP-257), which may override the resolved quotas.",
    "See the callback's documentation.",
)
QUOTA_CALLBACK_UNCHECKED: Final = _note(
    "The `client.quota.callback.class` of a broker could not be read.",
    "Grant the principal DescribeConfigs on the cluster.",
)
PLAN_BLOCKED: Final = _warning(
    f"The plan given with `{option_of('plan')}` is blocked and cannot be applied.",
    "Resolve its blocking findings and make a new plan.",
)
PLAN_STALE: Final = _warning(
    f"The cluster has changed since the plan given with `{option_of('plan')}` was made, so it cannot be applied.",
    "Make a new plan.",
)

globals().update(
    {
        name: replace(row, id=name.lower().replace("_", "-"))
        for name, row in tuple(globals().items())
        if isinstance(row, FindingRule)
    }
)

RULES: Final[Mapping[str, FindingRule]] = {
    row.id: row for row in tuple(globals().values()) if isinstance(row, FindingRule)
}
"""All rules by id, in the order of this module. An id is the name of the row: `BAD_MATCH` is `bad-match`."""

RULE_IDS.extend(RULES)

LINTS: Final[Mapping[str, FindingRule]] = {name: row for name, row in RULES.items() if row.is_lint}
"""The rules that `lints.ignore` can ignore."""
APPROVABLE: Final = tuple(row.id for row in RULES.values() if row.is_approvable)
"""The rules that approvals.yaml can lift for one entity."""


_ALLOWED: Final = {row.id: row for row in RULES.values() if row.is_allowable}
ALLOWED_RULES: Final = tuple(f"{row.id}=" if row.takes_number else row.id for row in _ALLOWED.values())
"""The rules that can be allowed, as they are given; one that takes a number ends in `=`."""


def read_allowances(texts: Iterable[str]) -> tuple[Allowance, ...]:
    """Read the values of `--allow`.

    >>> read_allowances(["delete=8", "to-unlimited"])
    (Allowance(rule='delete', number=8), Allowance(rule='to-unlimited', number=None))

    Raises `UsageError` if one is not RULE or RULE=N, its rule is unknown or cannot be allowed, a number is missing or
    one too many, or a rule has two numbers.
    """
    found: dict[str, Allowance] = {}
    for text in texts:
        name, separator, number = text.partition("=")
        row = _ALLOWED.get(name)
        if row is None:
            raise ArgumentError("{allow} {}", _unknown_text(name))
        if not row.takes_number and separator:
            raise ArgumentError("{allow} {} takes no number; write {allow} {}", name, name)
        if row.takes_number and not (number.isascii() and number.isdigit() and len(number) < len(str(2**53))):
            problem = f"{quote(number)} is not a number" if separator else "the number is missing"
            remedy = f"{{allow}} {name}=N, with the number that the plan shows"
            raise ArgumentError(f"{{allow}} {{}}: {{}}; write {remedy}", name, problem)
        allowance = Allowance(name, int(number) if row.takes_number else None)
        if found.setdefault(name, allowance) != allowance:
            raise ArgumentError("{allow} {} is given with two numbers; give the number of the plan", name)
    return tuple(sorted(found.values()))


def _unknown_text(name: str) -> str:
    known: FindingRule | None = RULES.get(name)
    if known is not None and known.is_blocking:
        remedy = f"{known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
        return f"{name}: no option allows this rule; {remedy}"
    rules = ", ".join(f"{row.id}=N" if row.takes_number else row.id for row in _ALLOWED.values())
    return f"{quote(name)}: there is no such rule{did_you_mean(name, _ALLOWED) or '.'} The rules are {rules}"


MAX_PROBLEMS: Final = 100
"""How many errors are shown, and how many warnings and notes."""


class FindingList:
    """Findings up to a limit: a file of a million mistakes has a hundred problems, and a line that says so."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self.errors: list[Finding] = []  # the first errors that were added
        self.others: list[Finding] = []  # the first warnings and notes that were added
        self._left_out: set[str] = set()  # the rules that say of what there are more
        self.extend(findings)

    @property
    def is_full(self) -> bool:
        """Whether there are more errors than are shown, so that looking for others is of no use."""
        return MORE_PROBLEMS.id in self._left_out

    def add(self, finding: Finding) -> bool:
        """Add a finding, if there is room, and return whether there was."""
        is_error = finding.severity is Severity.ERROR or finding.rule == MORE_PROBLEMS.id
        kept, more = (self.errors, MORE_PROBLEMS.id) if is_error else (self.others, MORE_WARNINGS.id)
        has_room = len(kept) < MAX_PROBLEMS and finding.rule != more
        if has_room:
            kept.append(finding)
        else:
            self._left_out.add(more)
        return has_room

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings, if there is room."""
        for finding in findings:
            self.add(finding)

    def all(self) -> list[Finding]:
        """Return what is shown, sorted by place; at the end, whether there are more."""
        return by_place([*self.errors, *self.others]) + self.marks()

    def marks(self) -> list[Finding]:
        """Return what says that there are more than are shown."""
        findings: list[Finding] = []
        if self.is_full:
            text = f"and more: only the first {MAX_PROBLEMS} problems are shown; correct them and check again"
            findings.append(MORE_PROBLEMS.finding(text))
        if MORE_WARNINGS.id in self._left_out:
            findings.append(MORE_WARNINGS.finding(f"and more: only the first {MAX_PROBLEMS} warnings are shown"))
        return findings


def first_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first findings by place, at most as many as are shown; at the end, whether there are more."""
    return FindingList(by_place(findings)).all()
