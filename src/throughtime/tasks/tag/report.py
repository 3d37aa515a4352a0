"""What people read of a tagger's evaluation: its measures, each type of chunk, what is confused most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from throughtime.metrics.classification import Tagging

SHOWN = 10


def report_text(name: str, values: Mapping[str, Any], tags: Tagging) -> str:
    """The text, with rich's markup."""
    chunked = "f1" in values
    first = f"F1 [bold]{values['f1']:.2%}[/bold], " if chunked else ""
    parts = [f"{name}: {first}accuracy [bold]{values['accuracy']:.2%}[/bold]"]
    if chunked:
        parts.append(f"precision {values['precision']:.2%}, recall {values['recall']:.2%}")
    if "intent_accuracy" in values:
        parts.append(f"intents [bold]{values['intent_accuracy']:.2%}[/bold]")
    counts = f"over {values['words']:,} words of {values['sentences']:,} sentences"
    if values["unknown_words"]:
        counts += (
            f"; of {values['unknown_words']:,} words not seen in training "
            f"{values['unknown_word_accuracy']:.2%} are right"
        )
    tables = []
    if chunked:
        rows = [
            (
                type_,
                f"{one['precision']:.1%}",
                f"{one['recall']:.1%}",
                f"{one['f1']:.1%}",
                f"{one['given']:,}",
            )
            for type_, one in values["types"].items()
        ]
        tables.append(_table(("type", "precision", "recall", "F1", "given"), rows))
    if confused := tags.confused[:SHOWN]:
        counted = [(given, found, f"{count:,}") for given, found, count in confused]
        tables.append("Confused most:\n" + _table(("is", "tagged", "times"), counted))
    return "\n".join([", ".join(parts), counts, *tables])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Columns side by side, names to the left and numbers to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        cells = (
            cell.rjust(width) if other[:1].isdigit() else cell.ljust(width)
            for cell, width, other in zip(row, widths, rows[0] if rows else head, strict=True)
        )
        return "  " + "  ".join(cells).rstrip()

    return "\n".join([f"[dim]{line(head)}[/dim]", *(escape(line(row)) for row in rows)])
