"""Export models as graphs that run without torch.

Here are the formats of exports: which one a name asks for, and which options each has.
"""

from __future__ import annotations

from pathlib import Path

from throughtime.errors import InputError, unknown
from throughtime.files import check_file

FORMATS = ("onnx", "html", "arpa")
ENDINGS = {".html": "html", ".htm": "html", ".arpa": "arpa", ".arpa.gz": "arpa"}
"""The endings of names that tell a format."""


def choose_format(format: str | None, out: Path | str, default: str = "onnx") -> str:  # noqa: A002
    """Return the format that is given, or the one that the ending of the name tells, or else the default.

    >>> choose_format(None, "model.html"), choose_format(None, "model"), choose_format("onnx", "model.html")
    ('html', 'onnx', 'onnx')
    """
    name = Path(out).name
    told = next((kind for ending, kind in ENDINGS.items() if name.lower().endswith(ending)), default)
    chosen = told if format is None else format
    if chosen not in FORMATS:
        raise unknown("format", chosen, FORMATS)
    if chosen == "html" and told != "html":
        raise InputError(
            "out", f"{name!r} does not end in .html, so no browser would open it; name it {name}.html"
        )
    return chosen


def check_options(format: str, int8: bool, weights: str | None, sample: bool = True) -> None:  # noqa: A002
    """Refuse an option that this format does not have."""
    if int8 and format == "html":
        raise InputError("int8", "is already the default of html; leave it out")
    if int8 and format == "arpa":
        raise InputError("int8", "is for models with weights; leave it out")
    for name, is_given in (("weights", weights is not None), ("sample", not sample)):
        if is_given and format != "html":
            raise InputError(name, f"is an option of the html format, not of {format}")


def check_new_file(path: Path | str) -> None:
    """Raise an error if no new file can be written at `path`; call it before long work."""
    check_file(path)
    if Path(path).exists():
        raise InputError(str(path), "exists already; choose another name or remove it")
