"""What commands read: trained models, data sets, and lines of a file or of stdin."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from throughtime.cli.output import download_bars, flags, progress_bar, say, warn
from throughtime.errors import InputError, unknown
from throughtime.tasks import TASKS
from throughtime.text.texts import one_line as one_line

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset

LINES_AT_ONCE = 2_000


def read_task_name(run: Path) -> str:
    """Return the name of the task that a run was trained for; its weights are not read."""
    from throughtime.folder import ModelFolder

    return ModelFolder.at(run).read_config()[0]


def load_model(run: Path, device: str, *tasks: str) -> Any:
    """Load the model of a run; one of other tasks than `tasks` is refused, with what it is."""
    from throughtime.tasks.saved import SavedRun

    saved = SavedRun.open(run)
    task = saved.task
    if tasks and task in TASKS and task not in tasks:
        title = TASKS[task].title
        wanted = [TASKS[name].title for name in tasks]
        other = "an n-gram model" if tasks == ("ngram",) else " or ".join(dict.fromkeys(wanted))
        raise InputError(
            str(run),
            f"holds {title}, not {other}; use it with `throughtime {TASKS[task].command}`, or train "
            f"another model with `throughtime train {tasks[0]}`",
        )
    if task == "ngram":
        check_counting(device)
    return saved.load(device, trust_changed=flags.trust_changed)


def load_language_model(
    run: Path, device: str, others: Sequence[Path] | None, weights: str | None, *, choose: bool = False
) -> Any:
    """Return the language model of a run, interpolated with those of `others`, if there are any.

    Only with `choose` may the weights be missing: choosing them opens the data that the folder names.
    """
    wanted = ("language", "ngram")
    if not others:
        if weights is not None:
            raise InputError("--weights", "needs --with; name the model to interpolate with")
        return load_model(run, device, *wanted)
    if weights is None and not choose:
        problem = "is missing; `throughtime evaluate RUN --with OTHER --split valid` shows the best weights"
        raise InputError("--weights", problem)
    from throughtime.tasks.interpolation import interpolate

    runs = [run, *others]
    # A counted model beside recurrent ones takes no part in the choice of a device.
    devices = ["auto" if read_task_name(path) == "ngram" else device for path in runs]
    if "language" not in map(read_task_name, runs):
        check_counting(device)
    models = [load_model(path, chosen, *wanted) for path, chosen in zip(runs, devices, strict=True)]
    shares = None if weights is None else read_numbers(weights, "--weights", "0.7,0.3")
    return interpolate(*models, weights=shares)


def read_numbers(
    text: str, where: str, example: str, line: int | None = None, *, kind: type = float
) -> list[Any]:
    """Read numbers that are separated by commas or spaces.

    >>> read_numbers("0.7,0.3", "--weights", "0.5,0.5")
    [0.7, 0.3]
    """
    try:
        numbers = [kind(number) for number in text.replace(",", " ").split()]
        return numbers or [kind(text)]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(where, f"is {text!r}, expected {what} such as {example}", line) from None


def report_weights(model: Any) -> dict[str, Any]:
    """Say which weights were chosen for an interpolation; they are also part of the answer in JSON."""
    if not hasattr(model, "weights"):
        return {}
    if model.chosen_on is not None:
        say(f"{model.weights_in_words}; the weights were chosen on {model.chosen_on}")
    return {"models": model.names, "weights": list(model.weights)}


def check_counting(device: str) -> None:
    """Refuse a device for a model of counts, which are looked up and not computed.

    >>> check_counting("cuda")
    Traceback (most recent call last):
    throughtime.errors.InputError: --device: is for neural models; this one only counts, so leave it out
    """
    if device in ("auto", "cpu"):
        return
    if device.partition(":")[0] != "cuda":
        raise unknown("device", device, ("auto", "cpu", "cuda", "cuda:1"))
    raise InputError("--device", "is for neural models; this one only counts, so leave it out")


def open_data(data: str, **options: Any) -> Dataset:
    """Open a data set by name or path, with bars for the files that are downloaded.

    The options are those of `throughtime.data.datasets.open_dataset`.
    """
    from throughtime.data.datasets import open_dataset

    with download_bars() as advance:
        return open_dataset(data, progress=advance, **options)


def open_like_training(model: Any, data: str | None, **options: Any) -> Dataset:
    """Open data as the training data of a model were opened; by default, these data."""
    with download_bars() as advance:
        return cast("Dataset", model.open_data(data, progress=advance, **options))


def report_skipped(dataset: Dataset) -> None:
    """Say what the latest reading of the data left out."""
    if dataset.bad.count:
        say(dataset.bad.report())


def read_texts(texts: list[str] | None, file: Path | None) -> Iterator[list[str]]:
    """Return the texts of the command line, or the lines of the file or of stdin, many at a time.

    With `--json` all of them come at once, as the answer is one object.
    """
    if texts and file is not None:
        raise InputError("--file", "cannot be used together with texts on the command line; choose one")
    blocks = iter([texts]) if texts else read_blocks(file)
    return iter([[text for block in blocks for text in block]] if flags.json else blocks)


def read_sequences(model: Any, file: Path) -> Iterator[list[Any]]:
    """Return the sequences of vectors in a table or file of arrays; labels in it are not read."""
    from throughtime.data.readers.vectors import VectorTable
    from throughtime.data.source import BadRecords

    columns = (model.config.id, model.config.time, None, model.config.features or ())
    return iter([[*VectorTable(*columns, labelled=False).read((file,), BadRecords())]])


def answer_texts(
    check: Callable[..., dict[str, str]] | None,
    blocks: Iterable[list[Any]],
    predict: Callable[..., Sequence[Any]],
    *,
    lines: bool,
) -> Iterator[tuple[int, Any, Any]]:
    """Yield the number, counted from 0, the text and the answer of each text.

    `check` returns warnings about texts; `lines` says that they are lines of a file or of stdin.
    """
    done = 0
    for block in blocks:
        with progress_bar(f"lines {done + 1:,} to {done + len(block):,}") as advance:
            answers = predict(block, progress=advance)
        # After the answers, so that an error is shown without warnings. Blank lines are not worth a warning.
        if check is not None and not lines:
            warn(check(block))
        elif check is not None and (not done or any(text.strip() for text in block)):
            warn(check(block, numbers=range(done + 1, done + len(block) + 1), blank_lines=True))
        for number, (text, answer) in enumerate(zip(block, answers, strict=True), done):
            yield number, text, answer
        done += len(block)


def read_blocks(file: Path | None) -> Iterator[list[str]]:
    """Yield the lines of the file, or of stdin, many at a time; at a keyboard one at a time.

    A file without lines is refused. An empty stdin gets a message and is not an error: a filter that is given
    nothing returns nothing.
    """
    if file is not None:
        from throughtime.data.source import read_lines

        lines, size = (line for _, line in read_lines(file)), LINES_AT_ONCE
    else:
        # With newline=None, Python ends a line at \n, \r\n or \r, as `read_lines` does.
        sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline=None)  # type: ignore[union-attr]
        lines = (line.removesuffix("\n") for line in sys.stdin)
        size = 1 if sys.stdin.isatty() else LINES_AT_ONCE
    empty = True
    while block := list(itertools.islice(lines, size)):
        empty = False
        yield block
    if empty:
        say("stdin has no lines, and no other input was given: nothing to do")


def is_run(word: str) -> bool:
    """Return whether a word is the folder of a trained model; a sentence may be longer than any name.

    >>> is_run("a long sentence " * 100), is_run("")
    (False, False)
    """
    try:
        return bool(word) and (Path(word) / "config.json").is_file()
    except (OSError, ValueError):  # a sentence may be no path at all
        return False
