"""`throughtime data preview`: the first records of any file, as each task would read them."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.options import DateFormat, SkipBad
from throughtime.cli.output import Outcome, as_command
from throughtime.errors import ThroughtimeError

if TYPE_CHECKING:
    from rich.console import RenderableType

RECORDS = 5


@as_command
def preview(
    data: Annotated[
        str, typer.Argument(help="A file, two parallel files, a folder or a corpus.", metavar="DATA")
    ],
    date_format: DateFormat = None,
    skip_bad: SkipBad = False,
) -> Outcome:
    """Show five records of any file as each task would read it, or why a task cannot.

    [bold]Example[/bold]

      throughtime data preview pairs.tsv
    """
    from rich.text import Text

    from throughtime.tasks import TASKS

    tasks: dict[str | None, list[str]] = {}
    for name, task in TASKS.available().items():
        kind = task.data if task.data not in ("text", "texts") else None
        tasks.setdefault(kind, []).append(name)
    values, shown = [], list[RenderableType]()
    for kind, names in tasks.items():
        options: dict[str, Any] = {"date_format": date_format if kind == "series" else None}
        reading = {"tasks": names, **_read(data, kind, skip_bad, options)}
        values.append(reading)
        shown += [Text(f"train {', '.join(names)}", style="bold"), Text(f"  {reading['read']}")]
        shown += [Text(f"  {' | '.join(map(_cell, record.values()))}") for record in reading["records"]]
    return Outcome({"data": data, "readings": values}, shown)


def _read(data: str, kind: str | None, skip_bad: bool, options: dict[str, Any]) -> dict[str, Any]:
    """What was read as this kind of data, or why it cannot be, and the first records."""
    from throughtime.cli.inputs import open_data
    from throughtime.data.describe import describe_data

    try:
        dataset = open_data(data, kind=kind, skip_bad=skip_bad, **options)
        wanted = {kind, *ALIKE.get(kind or "", ())}
        if kind is not None and dataset.kind not in wanted:
            return {"read": f"holds {dataset.kind} data, which this task cannot read", "records": []}
        records = [record._asdict() for record in itertools.islice(dataset.records(), RECORDS)]
        return {"read": describe_data(dataset), "records": records}
    except ThroughtimeError as error:
        return {"read": str(error), "records": []}


ALIKE = {
    "pairs": ("cards",),
    "labelled": ("pairs", "tags"),
    "described": ("labelled", "pairs", "tags"),
}
"""Other kinds of data that a task can read."""


def _cell(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else " ".join(map(str, value))
        if isinstance(value, tuple)
        else json.dumps(value)
    )
