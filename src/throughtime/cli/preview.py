"""`throughtime data preview`: the first records of any file, as each task would read them."""

from __future__ import annotations

import itertools
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.data import format_record
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
    date_format: str | None = None,
    skip_bad: bool = False,
) -> Outcome:
    """Show five records of any file as each task would read it, or why a task cannot.

    [bold]Example[/bold]

      throughtime data preview pairs.tsv
    """
    from rich.text import Text

    from throughtime.tasks import TASKS

    tasks: dict[str, list[str]] = {}
    for name, task in TASKS.available().items():
        tasks.setdefault(task.data.replace("texts", "text"), []).append(name)
    values: list[dict[str, Any]] = []
    shown: list[RenderableType] = []
    for kind, names in tasks.items():
        options = {"date_format": date_format if kind == "series" else None, "skip_bad": skip_bad}
        reading = {"tasks": names, **_read(data, None if kind == "text" else kind, options)}
        values.append(reading)
        shown += [Text(f"train {', '.join(names)}", style="bold"), Text(f"  {reading['read']}")]
        shown += [Text(f"  {format_record(record)}") for record in reading["records"]]
    return Outcome({"data": data, "readings": values}, shown)


def _read(data: str, kind: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """What was read as this kind of data and the first records, or why it cannot be.

    If columns have to be chosen, those that may be meant are read.
    """
    from throughtime.data.datasets import describe_data, open_dataset

    try:
        dataset = open_dataset(data, kind=kind, **options)
        if kind is not None and dataset.kind not in (kind, *ALIKE.get(kind, ())):
            return {"read": f"holds {dataset.kind} data, which this task cannot read", "records": []}
        records = [record._asdict() for record in itertools.islice(dataset.records(), RECORDS)]
        if "condition" in dataset.columns:  # which comes first in the heading too
            records = [dict(reversed(record.items())) for record in records]
        return {"read": describe_data(dataset), "records": records}
    except ThroughtimeError as error:
        choices = getattr(error, "choices", {})
        again = _read(data, kind, options | choices) if choices.keys() - options.keys() else {}
        if again.get("records"):
            words = shlex.join(word for role, name in choices.items() for word in (f"--{role}", str(name)))
            return {**again, "read": f"with {words}: {again['read']}"}
        return {"read": str(error), "records": []}


ALIKE = {
    "pairs": ("cards",),
    "labelled": ("pairs", "tags"),
    "described": ("labelled", "pairs", "tags"),
}
"""Other kinds of data that a task can read."""
