"""The pictures that commands draw on the side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Plot = Annotated[Path | None, typer.Option(help="Draw it, as .png, .svg or .pdf.")]


def check_pictures(*paths: Path | None) -> None:
    """Refuse pictures that cannot be written before the long work, not after it."""
    from throughtime.files import check_file
    from throughtime.plots.style import check_format, import_matplotlib

    for path in paths:
        if path is not None:
            check_format(path)
            check_file(path)
            import_matplotlib()
