"""Expands `${provider:path:key}` in client properties, as Kafka's config providers do (KIP-297, 421, 887 and 993).

What is not there is a problem, where Java leaves the reference as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quotaform.cluster.client.java_properties import parse_properties
from quotaform.errors import FileReadError
from quotaform.files import LEADS_OUT, OF_GIT, PROPERTIES_LIMIT, is_within, read_text
from quotaform.model.variable import REFERENCE, expand, problem_text

_MOST_REFERENCES: Final = 20  # of a value; each may read a file
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_PROVIDERS: Final = {
    "env": ("EnvVarConfigProvider", "allowlist.pattern"),
    "file": ("FileConfigProvider", "allowed.paths"),
    "dir": ("DirectoryConfigProvider", "allowed.paths"),
}
_FORMS: Final = "${env:NAME}, ${file:PATH:KEY} or ${dir:PATH:FILE}"
_OUTSIDE: Final = "is outside of the repository, but these properties are not; move them out, or use ${env:NAME}"


def provider_folder(path: str | Path, repository: Path | None) -> Path | None:
    """Return the only folder whose files a client properties file may refer to; `None` for any.

    A pull request must not choose which file of the machine is read and sent to a host. It may have written whatever
    lies in the work tree of git around the repository that names the properties (`None`: the operator names them).
    """
    if repository is None:
        return None
    folder = Path(os.path.realpath(repository))
    trees = [each for each in (*reversed(folder.parents), folder) if os.path.lexists(each / ".git")]
    return repository if is_within(path, trees[0] if trees else folder) else None


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """The providers of client properties. What they return is secret; no problem has a path, a key or a value in it.

    Files are read `within` a folder, if it is given; relative paths may lead from `folder` instead of the working one.
    """

    settings: Mapping[str, str]
    environ: Mapping[str, str]
    folder: Path
    within: Path | None

    def expand(self, text: str) -> tuple[str, list[str]]:
        """Return a text with its references replaced once, and what is wrong with them."""
        pieces, problems, end = list[str](), list[str](), 0
        for count, match in enumerate(REFERENCE.finditer(text)):
            alias, colon, rest = match[1].partition(":")
            if colon and not match[2] and alias in _PROVIDERS:
                problems.append("a ${... has no closing brace; add it")
            elif colon and match[2]:
                try:
                    if count >= _MOST_REFERENCES:
                        raise ValueError(f"a value has more than {_MOST_REFERENCES} references; write some as they are")
                    pieces += [text[end : match.start()], self._look_up(alias, rest)]
                    end = match.end()
                except ValueError as error:
                    problems.append(str(error))
        return "".join([*pieces, text[end:]]), problems

    def _look_up(self, alias: str, rest: str) -> str:
        provider, limit = self._provider(alias)
        if provider == "env":
            if limit is not None:
                self._check_pattern(limit, rest)
            expansion = expand(f"${{env:{rest}}}", self.environ)
            for problem in expansion.problems:
                raise ValueError(problem_text(*problem))
            return expansion.text
        path, _, name = rest.partition(":")
        if not path or not name or (provider == "dir" and Path(name).name != name):
            raise ValueError(f"a ${{...}} has no path or no name; write {_FORMS}")
        if provider == "dir":
            return self._read(f"{path}/{name}", limit).removesuffix("\n")
        values = {each.key: each.value for each in parse_properties(self._read(path, limit), "", lambda *_: None)}
        if name not in values:
            raise ValueError("a ${file:PATH:KEY} names a key that is not in the file; correct it, or add the key")
        return values[name]

    def _provider(self, alias: str) -> tuple[str, str | None]:
        """Return the provider that an alias stands for, and what limits it."""
        listed = self.settings.get("config.providers") or ",".join(_PROVIDERS)
        if alias not in map(str.strip, listed.split(",")):
            raise ValueError(f"a ${{...}} names a provider that is not in config.providers; list it, or write {_FORMS}")
        prefix = f"config.providers.{alias}."
        written = self.settings.get(f"{prefix}class", _PACKAGE + _PROVIDERS.get(alias, ("",))[0])
        for provider, (java_class, parameter) in _PROVIDERS.items():
            if written == _PACKAGE + java_class:
                limit = f"{prefix}param.{parameter}"
                if any(key.startswith(f"{prefix}param.") and key != limit for key in self.settings):
                    raise ValueError(f"{prefix}param.* can only be {limit}; correct the other")
                return provider, self.settings.get(limit)
        classes = " or ".join(java_class for java_class, _ in _PROVIDERS.values())
        raise ValueError(f"{prefix}class cannot be loaded; set it to {classes} of {_PACKAGE.strip('.')}")

    def _check_pattern(self, pattern: str, name: str) -> None:
        if self.within is not None:  # Some patterns take years to match.
            raise ValueError("allowlist.pattern cannot be used in a repository; remove it: QUOTAFORM_ENV is the list")
        try:
            if not re.fullmatch(pattern, name):
                raise ValueError("allowlist.pattern does not match the variable of ${env:NAME}; correct one of them")
        except re.error:
            raise ValueError("allowlist.pattern is not a regular expression; correct it") from None

    def _read(self, path: str, allowed: str | None) -> str:
        why = "does not exist; correct the path, or create the file"
        for place in (Path(os.path.abspath(each)) for each in (path, self.folder / path)):  # noqa: PTH100 (follows links)
            if allowed and not any(place.is_relative_to(os.path.normpath(each)) for each in allowed.split(",")):
                why = "allowed.paths of its provider leaves out; correct one of them"
                continue
            try:
                return read_text(place, PROPERTIES_LIMIT, within=self.within)
            except FileReadError as error:
                if not error.is_missing:
                    is_outside = error.reason in (LEADS_OUT, OF_GIT)
                    why = _OUTSIDE if is_outside else f"cannot be read: {error.reason}; correct it"
        raise ValueError(f"a ${{...}} names a file that {why}")
