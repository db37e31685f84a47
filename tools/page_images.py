"""The pictures of docs/pages.md: pages of the examples that golden files show, drawn by Chromium.

`make images` draws them (`python -m tools.page_images docs/images`); it needs the Debian package chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.test_pages import page_of

SHOWN = {"plan": 560, "headroom": 440}
"""The pages that are drawn, and how high a picture is."""


def main() -> None:
    """Draw the pictures into the folder whose path is given."""
    folder, browser = Path(sys.argv[1]).absolute(), shutil.which("chromium")
    if browser is None:
        raise SystemExit("pictures of pages need Chromium: apt-get install chromium")
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as temporary:
        for name, height in SHOWN.items():
            page = Path(temporary, f"{name}.html")
            page.write_text(page_of(name).html, encoding="utf-8")
            options = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--window-size=1400,{height}",
            ]
            command = [browser, *options, f"--screenshot={folder / name}.png", page.as_uri()]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 (what apt installed)


if __name__ == "__main__":
    main()
