"""matplotlib, with settings that neither the user's files nor its version or the time have an effect on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from quotaform.model.errors import QuotaformError, missing_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,
    "text.usetex": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "quotaform",
    "hatch.linewidth": 0.6,
    "path.simplify": True,
}
"""A `$` in a name begins no formula, and text stays text: it can be selected, and is read aloud."""

_DPI: Final = 150


def require_matplotlib() -> None:
    """Make sure that pictures can be drawn, before anything is computed.

    Raises:
        QuotaformError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise QuotaformError(f"Pictures are drawn by matplotlib: {missing_extra('plot')}.")


@contextmanager
def settings() -> Iterator[None]:
    """Draw with the settings of quotaform: figures are made and saved in this context.

    Raises:
        QuotaformError: matplotlib is not installed.
    """
    require_matplotlib()
    # It reports what it does about fonts and its cache.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def svg_text(figure: Figure, title: str) -> str:
    """Return a figure as SVG: equal figures give equal texts."""
    from io import StringIO

    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    return file.getvalue()


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as PNG: equal figures give equal bytes."""
    from io import BytesIO

    file = BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return file.getvalue()


def drawable(text: str) -> str:
    """Return a text with characters escaped that matplotlib's own font does not have."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    from quotaform.model.printable import spell

    font = get_font(findfont(FontProperties(family="monospace")))
    return "".join(each if font.get_char_index(ord(each)) else spell(each) for each in text)
