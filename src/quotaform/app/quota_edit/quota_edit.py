"""Changes the files of a quotas directory so that they say what is proposed: all of it that can be, and nothing else.

The result is read again before it counts: each entity must have the proposed values, and every other one, of every
cluster, what it had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Final

from quotaform.app.quota_edit.placement import NEW_FILE, ClusterEntries, Placed
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.root import read_claims
from quotaform.atomic_file import write_text_atomically
from quotaform.core.claim import Claim
from quotaform.core.usage.sizing.recommendation import QuotaEdit, Recommendation, UnwrittenProposal, WrittenFile
from quotaform.desired.config import Config
from quotaform.desired.edit.file_edit import FileEdit
from quotaform.desired.edit.mapping_text import UneditableError
from quotaform.desired.loader import LoadedFiles, load_files
from quotaform.desired.tree import Layout, Root, layer_of, shown_path
from quotaform.desired.writer import SCHEMA
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired
from quotaform.model.finding import Severity
from quotaform.model.quotas import Values

Changed = tuple[str, Entity]
"""A cluster and an entity."""

_ENTANGLED: Final = "its entry cannot be changed without changing others"
_MOST_ROUNDS: Final = 4
"""What is wrong is left out first, then all changes of its cluster, then all, until the files say what they should."""


@dataclass(frozen=True, slots=True)
class EditedFiles:
    """Files that follow proposals.

    Attributes:
        edit: What becomes of them.
        paths: Where each of them is written.
    """

    edit: QuotaEdit
    paths: tuple[Path, ...]


def edit_quotas(
    repository: Repository,
    config: Config,
    proposals: Iterable[Recommendation],
    live: Mapping[Changed, Values],
    today: date,
) -> EditedFiles:
    """Return the files of a repository as they follow proposals; nothing is written.

    Args:
        proposals: What is proposed, of any clusters.
        live: The values on the clusters of the entities that proposals are about.

    Raises:
        InvalidFilesError: The files are invalid.
        QuotaformError: The changed files would not say what they should.
    """
    loaded = repository.load(config, today, may_be_empty=True)
    grouped: dict[Changed, list[Recommendation]] = {}
    for each in proposals:
        grouped.setdefault((each.cluster, each.entity), []).append(each)
    editor = _Editor(loaded, config, grouped, live, today)
    refused = editor.refuse()
    blocked = dict(_claimed(editor.proposals, read_claims(repository, config, today), config))
    for _ in range(_MOST_ROUNDS):
        files, unwritten = editor.edited(blocked)
        wrong = editor.wrong(files, {(each.proposal.cluster, each.proposal.entity) for each in unwritten})
        if not wrong:
            break
        blocked |= dict.fromkeys(wrong, _ENTANGLED)
    else:
        raise QuotaformError("the quota files cannot be changed as proposed; use --diff with --select for single ones")
    edits = [
        WrittenFile(name=file.name, before=file.before, after=after)
        for file, after in files.values()
        if after != file.before
    ]
    paths = tuple(repository.directory / path for path, (file, after) in files.items() if after != file.before)
    return EditedFiles(QuotaEdit(files=tuple(edits), unwritten=(*refused, *unwritten)), paths)


def _claimed(changed: Iterable[Changed], claims: Sequence[Claim], config: Config) -> Iterator[tuple[Changed, str]]:
    """Yield the entities that another repository declares."""
    for cluster, entity in changed:
        known = config.clusters.get(cluster)
        for claim in claims:
            if entity in claim.desired and claim.is_of(cluster, None if known is None else known.cluster_id):
                place = claim.desired[entity].location
                yield (cluster, entity), f"it is declared in another quota repository, at {place}"


def write_quotas(edited: EditedFiles) -> QuotaEdit:
    """Write all files, or none. Raises `QuotaformError` if one cannot be written; the others are as they were."""
    written: list[tuple[Path, str]] = []
    try:
        for path, file in zip(edited.paths, edited.edit.files, strict=True):
            _write(path, file.after)
            written.append((path, file.before))
    except BaseException:
        with suppress(OSError, QuotaformError):
            for path, before in reversed(written):
                _write(path, before) if before else path.unlink()
        raise
    return replace(edited.edit, is_written=True)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, text)
    except OSError as error:
        raise QuotaformError(f"{path} cannot be written: {error.strerror or error}; no file was changed") from error


class _Editor:
    """Edits files so that they follow proposals."""

    def __init__(
        self,
        loaded: LoadedFiles,
        config: Config,
        proposals: Mapping[Changed, Sequence[Recommendation]],
        live: Mapping[Changed, Values],
        today: date,
    ) -> None:
        self.loaded = loaded
        self.config = config
        self.proposals = dict(proposals)
        self.live = live
        self.today = today
        self.tree = loaded.layout.tree
        self.paths = {shown_path(PurePosixPath(self.tree.name) / path): path for path in self.tree.files}
        self.entries = {
            cluster: ClusterEntries(loaded, config, cluster) for cluster in sorted({name for name, _ in proposals})
        }

    def refuse(self) -> list[UnwrittenProposal]:
        """Take out the proposals that cannot be followed while others of their entity can, and return them."""
        refused: list[UnwrittenProposal] = []
        for (cluster, entity), proposals in list(self.proposals.items()):
            reasons = [(each, self.entries[cluster].refusal(each, proposals)) for each in proposals]
            refused += [UnwrittenProposal(proposal=each, reason=reason) for each, reason in reasons if reason]
            self.proposals[cluster, entity] = [each for each, reason in reasons if not reason]
            if not self.proposals[cluster, entity]:
                del self.proposals[cluster, entity]
        return refused

    def edited(
        self, blocked: Mapping[Changed, str]
    ) -> tuple[dict[str, tuple[FileEdit, str]], tuple[UnwrittenProposal, ...]]:
        """Return the files that change, by path, with their new content, and what they do not follow."""
        files: dict[str, FileEdit] = {}
        unwritten: list[UnwrittenProposal] = []
        for (cluster, entity), proposals in self.proposals.items():
            reason = blocked.get((cluster, entity))
            if reason is None:
                try:
                    live = self.live.get((cluster, entity), {})
                    ways = self.entries[cluster].place(entity, proposals, live, self.today)
                    self.take(files, ways)
                except UneditableError as error:
                    reason = str(error)
            if reason is not None:
                unwritten += [UnwrittenProposal(proposal=each, reason=reason) for each in proposals]
        after = {path: (file, file.after(_schema(path))) for path, file in sorted(files.items())}
        return after, tuple(unwritten)

    def take(self, files: dict[str, FileEdit], ways: Sequence[Placed]) -> None:
        """Change a file in the first of several ways that can be gone."""
        for way in ways:
            try:
                if way.file is not None:
                    self.file(files, self.paths[way.file]).change(way.position, way.edit)
                else:
                    path = NEW_FILE if way.layer is None else f"{way.layer}/{NEW_FILE}"
                    self.file(files, path).add(way.edit)
            except UneditableError:
                if way is ways[-1]:
                    raise
            else:
                return

    def file(self, files: dict[str, FileEdit], path: str) -> FileEdit:
        if path not in files:
            text = self.tree.files.get(path, b"").decode()
            files[path] = FileEdit(shown_path(PurePosixPath(self.tree.name) / path), text)
        return files[path]

    def wrong(self, files: Mapping[str, tuple[FileEdit, str]], left: Collection[Changed]) -> set[Changed]:
        """Return the changes after which the files do not say what they should.

        `files` are the files that change, by path, with their new content. `left` is what they do not follow.
        """
        after = {path: text.encode() for path, (_, text) in files.items()}
        layers = {layer_of(path) for path in after}
        if not after:
            return set()
        tree = replace(
            self.tree,
            files={**self.tree.files, **after},
            folders=sorted({*self.tree.folders, *(layer for layer in layers if layer is not None)}),
            root=Root.DIRECTORY,
        )
        layout = Layout(tree, self.config.clusters, may_be_empty=True)
        similar = (self.loaded, self.config.profiles)
        changed = load_files(layout, self.config.profiles, self.today, self.config.scope, similar=similar)
        wrong: set[Changed] = set()
        concerned = {*self.config.clusters, *self.entries} if None in layers else layers
        for cluster in sorted(name for name in concerned if name is not None):
            found, findings = changed.check(cluster)
            errors = [finding for finding in findings if finding.severity is Severity.ERROR]
            if errors:
                addresses = {finding.address for finding in errors}
                mine = self.of_cluster(cluster)
                at_fault = {each for each in mine if each[1].address in addresses}
                wrong |= at_fault - set(left) or mine - set(left) or set(self.proposals)
            else:
                wrong |= self.different(cluster, found, left)
        return wrong

    def of_cluster(self, cluster: str) -> set[Changed]:
        """Return the changes of a cluster."""
        return {each for each in self.proposals if each[0] == cluster}

    def different(self, cluster: str, found: Desired, left: Collection[Changed]) -> set[Changed]:
        """Return the changes of a cluster that are not as proposed; all that can be at fault if others changed, too."""
        before = self.loaded.desired(cluster)
        wrong: set[Changed] = set()
        for entity in before.keys() | found.keys():
            old, new = before.get(entity), found.get(entity)
            known: Values = {} if old is None else old.values
            proposals = () if (cluster, entity) in left else self.proposals.get((cluster, entity), ())
            values: Values = {} if new is None else new.values
            if proposals and values != self.expected(cluster, entity, known, proposals):
                wrong.add((cluster, entity))
            elif not proposals and (values != known or (old is None) != (new is None)):
                return self.of_cluster(cluster) - set(left) or set(self.proposals)
        return wrong

    def expected(self, cluster: str, entity: Entity, known: Values, proposals: Sequence[Recommendation]) -> Values:
        values = {**(known or self.live.get((cluster, entity), {}))}
        for each in proposals:
            if each.after is None:
                values.pop(each.key, None)
            else:
                values[each.key] = each.after
        return values


def _schema(path: str) -> str:
    return f"../{SCHEMA}" if "/" in path else SCHEMA
