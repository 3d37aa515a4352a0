"""Errors, of two kinds: bad input, and failures at run time."""

from __future__ import annotations

import difflib
import importlib
import json
import math
import operator
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


class ThroughtimeError(Exception):
    """A failure at run time. The message is one sentence that a user can act on."""

    exit_code = 1


def shorten(text: str, head: int = 1_500, tail: int = 500) -> str:
    """Leave out the middle of a text that quotes a cell or a word of a hundred thousand letters."""
    return text if len(text) <= head + tail else f"{text[:head]} ... {text[-tail:]}"


class InputError(ThroughtimeError, ValueError):
    """Bad input: the message names the file, line or option, and says what to do.

    `skippable` is set if one record is bad and reading could continue without it; `choices` are settings that
    may be meant, if the problem is that one was not clear.

    >>> raise InputError("pairs.tsv", "has one column, expected two separated by a tab", line=7)
    Traceback (most recent call last):
    throughtime.errors.InputError: pairs.tsv:7: has one column, expected two separated by a tab
    """

    exit_code = 2

    def __init__(self, where: str, problem: str | None = None, line: int | None = None) -> None:
        self.where, self.line = where, line
        self.problem = None if problem is None else shorten(problem)
        self.skippable = False
        self.choices: dict[str, Any] = {}
        place = shorten(where) if line is None else f"{shorten(where)}:{line}"
        super().__init__(place if problem is None else f"{place}: {self.problem}")


class MissingPackageError(ThroughtimeError):
    """A feature needs an optional package that is not installed; the message says how to install its extra.

    >>> raise MissingPackageError("drawing a picture", "matplotlib", extra="plot")
    Traceback (most recent call last):
    throughtime.errors.MissingPackageError: drawing a picture needs matplotlib, which is not installed;
    run: ...pip install ...[plot]...
    """

    exit_code = 2

    def __init__(self, feature: str, package: str, *, extra: str) -> None:
        command = install_command(package, extra)
        super().__init__(f"{feature} needs {package}, which is not installed; run: {command}")


def install_command(package: str, extra: str) -> str:
    """Return the command that adds an extra to throughtime as it was installed.

    pip records where a distribution came from: an index, a folder (perhaps as an editable checkout), or the
    address of an archive or a repository. Where throughtime is not installed, only the package is named.
    """
    pip = [sys.executable, "-m", "pip", "install"]
    if shutil.which("pip") == str(Path(sys.executable).with_name("pip")):
        pip = ["pip", "install"]
    try:
        origin = json.loads(metadata.distribution("throughtime").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return shlex.join([*pip, package])
    url = origin.get("url", "")
    if "dir_info" in origin:
        folder = url2pathname(urlsplit(url).path)
        folder = os.curdir if Path(folder) == Path.cwd() else folder
        editable = ["--editable"] * bool(origin["dir_info"].get("editable"))
        return shlex.join([*pip, *editable, f"{folder}[{extra}]"])
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return shlex.join([*pip, f"throughtime[{extra}] @ {url}" if url else f"throughtime[{extra}]"])


class DamagedModelError(ThroughtimeError):
    """A model computed values that are not numbers, because its weights are damaged."""

    def __init__(self) -> None:
        super().__init__(
            "the model's answer is not a number (NaN): its weights are damaged or far too large; "
            "train the model again"
        )


class InterruptedRunError(ThroughtimeError):
    """The run was interrupted; `checkpoint` is where it was saved."""

    exit_code = 130

    def __init__(self, checkpoint: Path | None) -> None:
        super().__init__("interrupted")
        self.checkpoint = checkpoint


class ThroughtimeWarning(UserWarning):
    """Something that a user should know about an answer; the command line prints it as a warning."""


def import_optional(package: str, *, feature: str, extra: str) -> Any:
    """Import a package that only one feature needs; if it is missing, the error names the extra.

    >>> import_optional("json", feature="reading JSON", extra="none").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is installed, but one of its own dependencies is missing
        raise MissingPackageError(feature, package, extra=extra) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if it has none.

    >>> first_line(RuntimeError("out of memory\\nsee the manual")), first_line(RuntimeError())
    ('out of memory', 'RuntimeError')
    """
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def check_whole(name: str, number: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number, numpy's too; refuse fractions, true and false, and what is out of range.

    >>> check_whole("batch_size", 2.5)
    Traceback (most recent call last):
    throughtime.errors.InputError: batch_size: is 2.5, expected a whole number of 1 or more
    """
    try:
        whole = least - 1 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        whole = least - 1
    if whole < least or (most is not None and whole > most):
        limits = f"of {least} or more" if most is None else f"from {least} to {most:,}"
        raise InputError(name, f"is {number!r}, expected a whole number {limits}")
    return whole


def check_number(
    name: str, number: Any, least: float = 0.0, most: float = math.inf, *, above: bool = False
) -> float:
    """Return a finite number; refuse other types, and what is out of range, with `above` also `least` itself.

    >>> check_number("top_p", math.nan, 0, 1, above=True)
    Traceback (most recent call last):
    throughtime.errors.InputError: top_p: is nan, expected a number above 0, at most 1
    """
    try:
        value = math.nan if isinstance(number, bool | str) else float(number)
    except (TypeError, ValueError):
        value = math.nan
    if not (least <= value <= most and math.isfinite(value)) or (above and value == least):
        bounded = math.isfinite(most)
        limits = f"above {least:g}" if above else f"from {least:g}" if bounded else f"of {least:g} or more"
        limits += (", at most" if above else " to") + f" {most:g}" if bounded else ""
        raise InputError(name, f"is {number!r}, expected a {'' if bounded else 'finite '}number {limits}")
    return value


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question for the nearest known name, or nothing if none is near.

    >>> suggest("num_beans", ["num_beams", "seed"]), suggest("x", ["seed"])
    ("; did you mean 'num_beams'?", '')
    """
    near = difflib.get_close_matches(str(name), [*known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


MAX_NAMES = 100
"""The maximum number of known names that an error lists."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for a name that is not in a table; it suggests the nearest known name.

    >>> str(unknown("smoothing", "laplas", ["laplace", "kneser-ney"]))
    "unknown smoothing 'laplas'; did you mean 'laplace'? Known: kneser-ney, laplace"
    >>> str(unknown("side", "left", ["target", "source"]))
    "unknown side 'left'; known: source, target"
    """
    names = sorted(known)
    near = suggest(name, names)
    hint = f"{near} Known" if near else "; known"
    listed = ", ".join(one if one.isprintable() else repr(one) for one in names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return InputError(f"unknown {kind} {name!r}{hint}: {listed}{more}")
