"""Opening data in the terminal: a bar for what has to be fetched, a word about what was skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.output import say, stderr

if TYPE_CHECKING:
    from pathlib import Path

    from throughtime.data.corpora import CorpusFile
    from throughtime.data.dataset import Dataset


SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave bad records out and count them, instead of refusing.")
]
DateFormat = Annotated[
    str | None,
    typer.Option(help="Format of the dates of series, such as %d.%m.%Y; found from the data by default."),
]
Source = Annotated[str | None, typer.Option(help="Of pairs: the source language, such as en.")]
Target = Annotated[str | None, typer.Option(help="Of pairs: the target language, such as fr.")]


def opened(
    data: str,
    *,
    source: str | None = None,
    target: str | None = None,
    layout: str | None = None,
    date_format: str | None = None,
    kind: str | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """Open a data set by name or path; what is missing is fetched before the eyes of the user."""
    from throughtime.data.datasets import open_dataset

    with download_bars() as advance:
        return open_dataset(
            data,
            source=source,
            target=target,
            layout=layout,
            date_format=date_format,
            kind=kind,
            skip_bad=skip_bad,
            progress=advance,
        )


def opened_for(run: Path, config: Any, data: str, *, date_format: str | None, skip_bad: bool) -> Dataset:
    """Open data for the model of a run, in the way in which it opened those of its training."""
    options = config.data_options
    if date_format is not None:
        options["date_format"] = date_format
    return opened(data, **options, skip_bad=skipping(skip_bad, run, data, config.data))


def skipping(asked: bool, run: Path, data: str, own: str) -> bool:
    """Whether bad records are left out: as asked, and of a run's own data as they were in its training."""
    from throughtime.folder import ModelFolder

    return asked or (data == own and ModelFolder.at(run).skips_bad)


def tell_skipped(dataset: Dataset) -> None:
    """Say what the latest reading of the data left out."""
    if dataset.bad.count:
        say(dataset.bad.report())


@contextlib.contextmanager
def download_bars() -> Iterator[Callable[[CorpusFile, int, int | None], None]]:
    """A bar on stderr for each file that is being fetched; none where nothing is."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=stderr())
    tasks: dict[str, Any] = {}

    def advance(file: CorpusFile, done: int, total: int | None) -> None:
        if not tasks:
            bars.start()
        if file.path not in tasks:
            tasks[file.path] = bars.add_task(file.path, total=file.size)
        # A packed file is shorter on the way than on disk: what the server tells is right.
        bars.update(tasks[file.path], completed=done, total=total or file.size)

    try:
        yield advance
    finally:
        if tasks:
            bars.stop()
