"""`throughtime stats`: what a text is made of."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import open_data, report_skipped
from throughtime.cli.options import OptionalCount, check_pictures, refuse
from throughtime.cli.output import Outcome, as_command, build_table, draw_figure, say
from throughtime.cli.series_stats import series_stats

if TYPE_CHECKING:
    from rich.console import RenderableType

    from throughtime.data.dataset import Dataset
    from throughtime.text.codec import Codec
    from throughtime.text.statistics import Ngrams

NGRAMS, TOP = 3, 10
TASK_OF = {"pairs": "translate", "cards": "translate", "labelled": "classify", "described": "compose"}
"""The task whose vocabulary is shown, by the kind of data; for other texts a language model."""


@as_command
def stats(
    data: Annotated[str, typer.Argument(metavar="DATA")],
    tokens: str | None = None,
    normaliser: str | None = None,
    split: str = "all",
    side: str | None = None,
    min_freq: OptionalCount = None,
    ngrams: Annotated[int | None, typer.Option(min=1, max=10)] = None,
    top: Annotated[int | None, typer.Option(min=0)] = None,
    plot: Path | None = None,
    text: str | None = None,
    source: str | None = None,
    target: str | None = None,
    id: str | None = None,  # noqa: A002
    time: str | None = None,
    date_format: str | None = None,
    skip_bad: bool = False,
) -> Outcome:
    """Count the tokens, types and n-grams of a text and fit Zipf's law, or show the drift of a series.

    [bold]Examples[/bold]

      throughtime stats timemachine --tokens word

      throughtime stats my-novel.txt --ngrams 2 --plot zipf.png

      throughtime stats series/airline-passengers --plot drift.png

    Args:
        data: Name from `throughtime data list`, a file, or a folder of splits.
        normaliser: With --tokens char: normaliser of the text: none, nfc, lower (case) or letters (a to z
            only).
        side: For pairs: count only this side, source or target.
        ngrams: Maximum n of n-grams to count; 3 by default.
        top: Number of most frequent n-grams to show; 10 by default.
        plot: Draw Zipf's law, or the drift of a series: .png, .svg or .pdf.

    Data:
        text: Column of the texts in a table.
    """
    from throughtime.tasks.text_config import suits_pieces
    from throughtime.text.input_warnings import TokenizerCoverage
    from throughtime.text.statistics import Running, ngram_counts

    check_pictures(plot)
    columns = {"text": text, "source": source, "target": target, "id": id, "time": time}
    dataset = open_data(data, **columns, date_format=date_format, skip_bad=skip_bad)
    if dataset.kind == "series":
        of_texts = {"tokens": tokens, "normaliser": normaliser, "side": side, "min_freq": min_freq}
        problem = f"is for texts, and {data} holds numeric series; leave it out"
        refuse(problem, **of_texts, ngrams=ngrams, top=top)
        values, table = series_stats(dataset, split, plot)
        report_skipped(dataset)
        return Outcome(values | _count_skipped(dataset), [table])
    if dataset.kind == "vectors":
        refuse(f"is for texts, and {data} holds vectors; leave it out", tokens=tokens, ngrams=ngrams, top=top)
        return _vector_stats(dataset, split)
    if tokens is None and dataset.kind == "text" and suits_pieces(dataset):
        say("Words are counted; as many are rare, `train language` reads parts of words (--tokens bpe).")
    codecs = _build_codecs(tokens or dataset.tokens, normaliser, dataset, split, side, min_freq)
    codec = next(iter(codecs.values()))
    tokenizer = codec.tokenizer
    coverage = TokenizerCoverage(tokenizer, dataset.name)
    texts = map(coverage.tokenize, dataset.texts(split, side))
    running = Running.of(texts, joined=dataset.layout == "stream")
    report_skipped(dataset)
    for note in coverage.notes():
        say(note)
    counted = [ngram_counts(running, n) for n in range(1, (ngrams or NGRAMS) + 1)]
    values = _values(counted, TOP if top is None else top)
    values |= {"vocabularies": {of: len(each.vocabulary) for of, each in codecs.items()}}
    reserved = [token for token in codec.vocabulary if token in codec.vocabulary.reserved]
    values |= {"vocabulary": len(codec.vocabulary), "reserved": reserved, "min_freq": min_freq or 1}
    values |= {"tokenizer": tokenizer.name, "data": dataset.name, "split": split, **_count_skipped(dataset)}
    frequencies = {grams.n: grams.counts for grams in counted[:3]}
    draw_figure(plot, "zipf", frequencies, title=f"Zipf's law in {dataset.name}")
    return Outcome(values, _render(values))


def _vector_stats(dataset: Dataset, split: str) -> Outcome:
    from throughtime.data.datasets import describe_data

    counts = Counter(label for record in dataset.records(split) for label in record.labels)
    table = build_table("label", "number", rows=[(label, f"{n:,}") for label, n in counts.most_common()])
    report_skipped(dataset)
    about = describe_data(dataset)
    values = {"data": dataset.name, "split": split, "about": about, "labels": dict(counts)}
    return Outcome(values, [about, table])


def _build_codecs(
    name: str,
    normaliser_name: str | None,
    dataset: Dataset,
    split: str,
    side: str | None,
    min_freq: int | None,
) -> dict[str, Codec]:
    """Build the vocabularies that a model of these data has, as its training does, by what they are of."""
    from throughtime.tasks.text_config import are_whole_words, choose_max_size, count_words
    from throughtime.text.codec import Codec, choose_reserved
    from throughtime.text.tokenizer import check_normaliser

    normaliser = normaliser_name or dataset.normaliser_for(name)
    check_normaliser(normaliser, name, "--normaliser")
    if not are_whole_words(name):
        refuse("has no effect with tokens that are parts of words; leave it out", min_freq=min_freq)
    task = TASK_OF.get(dataset.kind, "language")
    trained = "train" if "train" in dataset.splits else split
    size = None
    if task != "language":
        size = choose_max_size(None, name, lambda most: count_words(dataset.texts(trained), most))
    sides: list[str | None] = [None]
    if task == "translate" and are_whole_words(name):  # both languages share parts of words
        sides = [side] if side else ["source", "target"]
    options: Any = (min_freq or 1, size, choose_reserved(dataset.layout, task), normaliser, dataset.name)
    return {
        f"{each} in {trained}" if each else trained: Codec.build(dataset.texts(trained, each), name, *options)
        for each in sides
    }


def _count_skipped(dataset: Dataset) -> dict[str, Any]:
    return {"skipped": dataset.bad.count, "skipped_reasons": dict(dataset.bad.reasons)}


def _values(counted: list[Ngrams], top: int) -> dict[str, Any]:
    from throughtime.text.statistics import bits, coverage, entropy, zipf_fit

    unigrams = counted[0]
    nats = entropy(unigrams.counts)
    rows = []
    for grams in counted:
        fit = zipf_fit(grams.counts)
        row = {name: getattr(grams, name) for name in ("n", "total", "distinct", "possible")}
        row["zipf_exponent"] = None if fit is None else fit.exponent
        rows.append({**row, "top": [[list(gram), number] for gram, number in grams.top(top)]})
    covered = {str(size): share for size, share in coverage(unigrams.counts).items()}
    values = {"tokens": unigrams.total, "types": unigrams.distinct, "coverage": covered, "ngrams": rows}
    return values | {"entropy_bits": bits(nats), "entropy_nats": nats}


def _render(values: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    marks = ", ".join(values["reserved"])
    scope = "all splits" if values["split"] == "all" else values["split"]
    least = f", min-freq {values['min_freq']}" if values["min_freq"] > 1 else ""
    rows = [
        (f"tokens ({values['tokenizer']}) of {scope}", f"{values['tokens']:,}"),
        (f"types of {scope}", f"{values['types']:,}"),
    ]
    for texts, size in values["vocabularies"].items():
        rows.append((f"vocabulary of {texts} with {marks}{least}", f"{size:,}"))
    for types, share in values["coverage"].items():
        if int(types) < values["types"]:
            rows.append((f"covered by the {int(types):,} most frequent types", f"{share:.1%}"))
    rows.append(("entropy of a token", f"{values['entropy_bits']:.3f} bits"))
    style: dict[str, Any] = {"title_justify": "left", "padding": (0, 1)}
    summary = build_table("", ">", rows=rows, show_header=False, title=values["data"], **style)
    headings = [">n", ">total", ">stored", ">possible", ">stored / possible", ">Zipf exponent"]
    costs = build_table(*headings, title="\nn-grams", **style)
    for row in values["ngrams"]:
        exponent = "–" if row["zipf_exponent"] is None else f"{row['zipf_exponent']:.2f}"
        share = row["distinct"] / max(row["possible"], 1)
        numbers = (f"{row[key]:,}" for key in ("total", "distinct", "possible"))
        costs.add_row(str(row["n"]), *numbers, f"{share:.1e}", exponent)
    columns = [row["top"] for row in values["ngrams"]]
    if not any(columns):
        return [summary, costs]
    headings = [heading for row in values["ngrams"] for heading in (f"n = {row['n']}", ">")]
    frequent = build_table(*headings, title="\nmost frequent", **style)
    for ranked in zip_longest(*columns, fillvalue=([], "")):
        cells: list[Text] = []
        for gram, number in ranked:
            # What cannot be seen (a space, a line break) is shown in quotes.
            words = [word if word.strip() and word.isprintable() else repr(word) for word in gram]
            cells += [Text(" ".join(words)), Text(f"{number:,}" if gram else "")]
        frequent.add_row(*cells)
    return [summary, costs, frequent]
