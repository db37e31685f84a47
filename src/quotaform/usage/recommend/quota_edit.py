"""Changes the files of a quotas directory so that they say what is proposed, and nothing else.

docs/usage-recommend.md says which entry of which file a proposal changes. The result is read again before it counts:
each entity must have the proposed values, and every other one, of every cluster, what it had.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from os.path import lexists
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from quotaform.desired.config import Config
from quotaform.desired.format import EntryEdit, FileEdit, UneditableError
from quotaform.desired.loader import LoadedFiles
from quotaform.desired.tree import Layout, Root, layer_of, shown_path
from quotaform.desired.writer import SCHEMA, writable_values
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.finding import Location, Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Entry, Quotas, Values, same_value
from quotaform.model.text import option_of, quote
from quotaform.model.units import is_decimal, render_value, spell_value
from quotaform.repository.repository import Repository, read_claims
from quotaform.resolve.effect import value_text
from quotaform.system.files import write_files
from quotaform.usage.recommend.recommendation import Advice, Recommendation, UnwrittenProposal, entry_reason

NEW_FILE: Final = "recommended.yaml"
"""The file of new entries, in the quotas directory or in the folder of a cluster."""


def file_value(key: str, value: float, before: float | None) -> str:
    """Return a value as files have it: bytes in the unit in which plans print them beside the value before, if exact.

    >>> file_value("producer_byte_rate", 13107200.0, None), file_value("producer_byte_rate", 1500001.0, None)
    ('12.5MiB/s', '1500001B/s')

    Raises `UneditableError`: files cannot hold it.
    """
    known = QUOTA_KEYS[key]
    exact = spell_value(known, value)
    if exact is None:
        raise UneditableError(f"its {key} is {value}, which files cannot hold; alter it first")
    shown = render_value(known, value, decimal=is_decimal(known, before)).replace(" ", "")
    return exact if known.unit != "B/s" or "[" in shown else shown


Changed = tuple[str, Entity]
"""A cluster and an entity."""

_MOST_ROUNDS: Final = 4
"""What is wrong is left out first, then all changes of its cluster, then all, until the files say what they should."""


class EditedFile(Struct, frozen=True, kw_only=True):
    """A file that follows proposals."""

    path: Path
    name: str  # The file in messages
    before: str  # Its content; empty if it is new
    after: str  # What it is to contain


class EditedFiles(Struct, frozen=True):
    """Files that follow proposals."""

    files: tuple[EditedFile, ...]  # Those that change
    unwritten: tuple[UnwrittenProposal, ...]  # The proposals that they do not follow
    loaded: LoadedFiles  # What all files of the directory say then


def edit_quotas(
    repository: Repository, config: Config, proposals: Iterable[Recommendation], held: Mapping[str, Quotas], today: date
) -> EditedFiles:
    """Return the files of a repository as they follow proposals; nothing is written.

    `proposals`: what is proposed, of any clusters. `held`: what the clusters hold. Raises
    `InvalidFilesError` if the files are invalid, and `QuotaformError` if the changed files would not say what they
    should.
    """
    editor = _Editor(repository, config, proposals, held, today)
    blocked: dict[Changed, str] = {}
    claims = read_claims(repository, config, today)
    for cluster, entity in editor.proposals:
        known = config.clusters.get(cluster)
        for claim in claims:
            if entity in claim.desired and claim.is_of(cluster, None if known is None else known.cluster_id):
                place = claim.desired[entity].location
                blocked[cluster, entity] = f"it is declared in another quota repository, at {place}"
    for _ in range(_MOST_ROUNDS):
        edited = editor.edited(blocked)
        wrong = editor.wrong(edited)
        if not wrong:
            changed = tuple(file for file in edited.files if file.after != file.before)
            return EditedFiles(changed, (*editor.refused, *edited.unwritten), edited.loaded)
        blocked |= dict.fromkeys(wrong, "its entry cannot be changed without changing others")
    remedy = f"use {option_of('diff')} with {option_of('select')} for single ones"
    raise QuotaformError(f"the quota files cannot be changed as proposed; {remedy}")


def write_quotas(edited: EditedFiles) -> None:
    """Write all files, or none. Raises `QuotaformError` if one cannot be written; the others are as they were."""
    before = {str(file.path): file.before for file in edited.files if lexists(file.path)}
    write_files({str(file.path): file.after for file in edited.files}, before)


def _unwritten(proposal: Recommendation, reason: str) -> UnwrittenProposal:
    return UnwrittenProposal(cluster=proposal.cluster, entity=proposal.entity, key=proposal.key, reason=reason)


class _Editor:
    """Edits files so that they follow proposals."""

    def __init__(
        self,
        repository: Repository,
        config: Config,
        proposals: Iterable[Recommendation],
        held: Mapping[str, Quotas],
        today: date,
    ) -> None:
        self.loaded = loaded = repository.load(config, today, may_be_empty=True)
        self.directory = repository.directory
        self.config = config
        self.held = held
        self.today = today
        self.tree = loaded.layout.tree
        self.paths = {shown_path(PurePosixPath(self.tree.name) / path): path for path in self.tree.files}
        grouped: dict[Changed, list[Recommendation]] = defaultdict(list)
        for each in proposals:
            grouped[each.cluster, each.entity].append(each)
        self.clusters = sorted({name for name, _ in grouped})
        self.desired = {cluster: loaded.desired(cluster) for cluster in self.clusters}
        # By cluster and layer, where `None` is what is common; and how many entities an entry of a file has.
        self.entries: dict[tuple[str, str | None], dict[Entity, Entry]] = defaultdict(dict)
        self.shared: Counter[tuple[str, Location | None]] = Counter()
        for cluster in self.clusters:
            for file in loaded.files(cluster):
                for entry in file.entries:
                    self.entries[cluster, file.source.layer].setdefault(entry.entity, entry)
                    self.shared[cluster, entry.location] += 1
        self.files: dict[str, FileEdit] = {}  # Those that change, by path
        self.proposals: dict[Changed, list[Recommendation]] = {}
        self.refused: list[UnwrittenProposal] = []
        for (cluster, entity), every in grouped.items():
            top, common = (self.entries[cluster, layer].get(entity) for layer in (cluster, None))
            gone = {each.key for each in every if each.action is Advice.DELETE}
            refused, reason = set[str](), ""
            if top is not None and top.profile is not None:
                # What a profile gives cannot be removed while other proposals for the entity can be followed; an entry
                # that has no value left becomes `state: absent`.
                is_gone = len(gone) == len(every) and self.desired[cluster][entity].values.keys() <= gone
                given = self.config.profiles.get(top.profile.name, {}).keys()
                kept = set() if common is None else common.values.keys()
                refused = set() if is_gone else gone & given - kept
                name = quote(top.profile.name)
                reason = f"it comes from the profile {name}; write values in the place of the profile"
            self.refused += [_unwritten(each, reason) for each in every if each.key in refused]
            if followed := [each for each in every if each.key not in refused]:
                self.proposals[cluster, entity] = followed

    def live(self, cluster: str, entity: Entity) -> Values:
        """Return the values of an entity on a cluster, of keys that files can have."""
        values = self.held.get(cluster, {}).get(entity, {})
        return {key: value for key, value in values.items() if key in QUOTA_KEYS}

    def edited(self, blocked: Mapping[Changed, str]) -> EditedFiles:
        """Return the files that change, what they do not follow, and what all files of the directory say then."""
        self.files = {}
        unwritten: list[UnwrittenProposal] = []
        for (cluster, entity), proposals in self.proposals.items():
            reason = blocked.get((cluster, entity))
            if reason is None:
                try:
                    self.follow(cluster, entity, proposals)
                except UneditableError as error:
                    reason = str(error)
            if reason is not None:
                unwritten += [_unwritten(each, reason) for each in proposals]
        edited = {
            path: EditedFile(path=self.directory / path, name=file.name, before=file.before, after=file.after())
            for path, file in sorted(self.files.items())
        }
        loaded = self.loaded
        if edited:
            after = {**self.tree.files, **{path: file.after.encode() for path, file in edited.items()}}
            folders = sorted({*self.tree.folders, *(layer for path in edited if (layer := layer_of(path)) is not None)})
            tree = replace(self.tree, files=after, folders=folders, root=Root.DIRECTORY)
            layout = Layout(tree, self.config.clusters, may_be_empty=True)
            loaded = LoadedFiles(layout, self.config.profiles, self.today, self.config.scope, similar=self.loaded)
        return EditedFiles(tuple(edited.values()), tuple(unwritten), loaded)

    def follow(self, cluster: str, entity: Entity, proposals: Sequence[Recommendation]) -> None:
        """Change a file so that it follows the proposals for an entity.

        Raises `UneditableError` if none can be changed.
        """
        entry = self.desired[cluster].get(entity)
        has_layer, has_several = cluster in self.config.clusters, len(self.config.clusters) > 1
        reason = entry_reason(None if entry is None else entry.reason, proposals, self.today)
        gone = frozenset(each.key for each in proposals if each.action is Advice.DELETE)
        proposed = {each.key: each.after for each in proposals if each.after is not None}
        before = {each.key: each.before for each in proposals}
        spelled = {key: file_value(key, value, before[key]) for key, value in proposed.items()}
        if entry is None:
            live = self.live(cluster, entity)
            values = {key: file_value(key, value, value) for key, value in live.items() if key not in gone} | spelled
            if writable_values(entity, {**live, **proposed}) is None:
                raise UneditableError("files cannot hold this entity; see quotaform import")
            edit = EntryEdit(entity=entity, values=values, is_absent=not values, reason=reason)
            self.file(f"{cluster}/{NEW_FILE}" if has_several and has_layer else NEW_FILE).add(edit)
            return
        # Proposals rest on what the cluster holds.
        if entry.absent is not None:
            raise UneditableError("the files say that it must not exist; apply them first")
        for key, held in before.items():
            if not same_value(entry.values.get(key), held):
                shown = [value_text(key, value) for value in (entry.values.get(key), held)]
                raise UneditableError(
                    f"it is {shown[0]} in the files and {shown[1]} on the cluster; apply the files first"
                )
        is_absent = not (entry.values.keys() - gone | spelled.keys())
        edit = EntryEdit(entity=entity, values=spelled, gone=gone, unset=gone, is_absent=is_absent, reason=reason)
        top, common = (self.entries[cluster, layer].get(entity) for layer in (cluster, None))
        problem = UneditableError("it is common to several clusters")
        if (target := top or (None if has_several else common)) is not None:
            try:
                self.change(cluster, target, common if top is not None else None, edit)
            except UneditableError as error:
                problem = error
            else:
                return
        if top is not None or not has_layer:
            raise problem
        self.file(f"{cluster}/{NEW_FILE}").add(edit)

    def change(self, cluster: str, target: Entry, below: Entry | None, edit: EntryEdit) -> None:
        """Change an entry where it stands. `below`: the common entry under it."""
        if target.location is None:
            raise UneditableError("it is in no file")
        if self.shared[cluster, target.location] > 1:
            raise UneditableError("it is of several entities; give this one an entry of its own")
        if both := edit.values.keys() & (target.unset or {}).keys():
            raise UneditableError(f"its entry unsets {min(both)}; take it from unset first")
        unset = frozenset() if below is None else edit.gone & below.values.keys()
        # What a profile gives, also where `values` next to it override that.
        given = {} if target.profile is None else self.config.profiles.get(target.profile.name, {})
        if (held := edit.gone & given.keys() - unset) and not edit.is_absent:
            raise UneditableError(f"{min(held)} comes from a profile")
        file = self.file(self.paths[target.location.file])
        file.change(target.location, replace(edit, unset=unset - frozenset(target.unset or ())))

    def file(self, path: str) -> FileEdit:
        if path not in self.files:
            text = self.tree.files.get(path, b"").decode()
            schema = f"../{SCHEMA}" if "/" in path else SCHEMA
            self.files[path] = FileEdit(shown_path(PurePosixPath(self.tree.name) / path), text, schema)
        return self.files[path]

    def wrong(self, edited: EditedFiles) -> set[Changed]:
        """Return the changes after which the files do not say what they should."""
        layers = set(map(layer_of, self.files))
        left = {(each.cluster, each.entity) for each in edited.unwritten}
        wrong: set[Changed] = set()
        concerned = {*self.config.clusters, *self.clusters} if None in layers else layers
        for cluster in sorted(name for name in concerned if name is not None):
            found, findings = edited.loaded.check(cluster)
            mine = {each for each in self.proposals if each[0] == cluster and each not in left}
            addresses = {finding.address for finding in findings if finding.severity is Severity.ERROR}
            own = {each for each in mine if each[1].address in addresses}
            if not addresses:
                # Entities whose values are not as proposed, or were not to be changed.
                expected = {entity: entry.values for entity, entry in self.loaded.desired(cluster).items()}
                for place in mine:
                    ops = {each.key: each.after for each in self.proposals[place]}
                    expected[place[1]] = apply_ops(expected.get(place[1], self.live(*place)), ops)
                values_of = {entity: entry.values for entity, entry in found.items()}
                places = expected.keys() | values_of.keys()
                own = {(cluster, entity) for entity in places if expected.get(entity) != values_of.get(entity)}
            if addresses or own:
                wrong |= own if own and own <= mine else mine or set(self.proposals)
        return wrong
