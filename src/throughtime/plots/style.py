"""One look for all pictures: colours that everybody can tell apart, and nothing that is not data."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, import_optional
from throughtime.files import whole_file
from throughtime.plots.fonts import complete_fonts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, strongest contrast first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, FAINT = "#333333", "#DDDDDD"
FORMATS = ("png", "svg", "pdf")
_NAMED = 20  # letters that no font has

_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    # The same picture is the same file: no random identifiers in an SVG.
    "svg.hashsalt": "throughtime",
}


def import_matplotlib() -> Any:
    """Import matplotlib; if it is missing, the error says what to install."""
    return import_optional("matplotlib", feature="drawing a picture", extra="plot")


@contextmanager
def figure(width: float = 7.0, height: float = 4.2) -> Iterator[Figure]:
    """An empty figure of this size in inches; what is drawn within the block has the common look."""
    matplotlib = import_matplotlib()
    from cycler import cycler
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        yield Figure(figsize=(width, height))


def save(figure: Figure, path: Path | str) -> Path:
    """Write the figure in the format that the file's suffix names.

    Letters that the usual font lacks are drawn with another that is installed; where none has them, stderr
    is told.
    """
    path = Path(path)
    kind = check_format(path)
    # A date in the file would make equal pictures differ.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    missing = complete_fonts(figure)
    with whole_file(path, "wb") as file, warnings.catch_warnings():
        # Said once below, not once for each letter.
        warnings.filterwarnings("ignore", r"Glyph .* missing from ")
        figure.savefig(file, format=kind, dpi=160, metadata=metadata)
    if missing:
        print(_boxes(path, missing), file=sys.stderr)
    return path


def _boxes(path: Path, missing: str) -> str:
    """The sentence on letters that no font has.

    >>> _boxes(Path("a.png"), "ሀሁ")
    'a.png: boxes stand for ሀሁ, which no installed font has; Noto has fonts of most scripts.'
    """
    more = len(missing) - _NAMED
    named = f"{missing[:_NAMED]} and {more} more" if more > 0 else missing
    return f"{path}: boxes stand for {named}, which no installed font has; Noto has fonts of most scripts."


def check_format(path: Path | str, where: str | None = None) -> str:
    """The format of a picture by its file's suffix; call it before long work that ends in a picture.

    An error names the path, or `where` it was given if nobody would look for a picture there.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise InputError(where or str(path), f"is not a picture that can be written; end it in {known}")
    return kind
