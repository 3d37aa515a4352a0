"""Opening data in the terminal: a bar for what has to be fetched, a word about what was skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from throughtime.cli.output import stderr

if TYPE_CHECKING:
    from throughtime.data.corpora import CorpusFile
    from throughtime.data.dataset import Dataset


def opened(data: str, *, skip_bad: bool = False) -> Dataset:
    """Open a data set by name or path; what is missing is fetched before the eyes of the user."""
    from throughtime.data.datasets import open_dataset

    with download_bars() as advance:
        return open_dataset(data, skip_bad=skip_bad, progress=advance)


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
