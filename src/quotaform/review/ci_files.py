"""The files that make CI systems plan, apply and watch quotas: one template each, of which `examples` has copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

CI_FILES: Final = {
    "github": {
        "github/quotas-plan.yml": ".github/workflows/quotas-plan.yml",
        "github/quotas-apply.yml": ".github/workflows/quotas-apply.yml",
        "github/quotas-drift.yml": ".github/workflows/quotas-drift.yml",
    },
    "gitlab": {"gitlab/quotaform.gitlab-ci.yml": ".gitlab-ci.yml"},
    "none": {},
}
"""CI system to template to where it goes in a repository."""

PROPERTIES_VARIABLE: Final = "QUOTAFORM_COMMAND_CONFIG"
"""The environment variable in which they give the path of the client properties."""

_CLUSTERS: Final = "[prod-eu]"


def ci_files(system: str, cluster: str) -> Iterator[tuple[str, str]]:
    """Yield each file of a CI system: where it goes in a repository, and its content.

    `system` is a key of `CI_FILES`. `cluster` is the name of the only cluster, as YAML spells it.
    """
    from importlib.resources import files

    for template, path in CI_FILES[system].items():
        text = files(__package__).joinpath("template", template).read_text(encoding="utf-8")
        yield path, text.replace(_CLUSTERS, f"[{cluster}]")
