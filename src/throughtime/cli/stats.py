"""`throughtime stats`: what a text is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import open_data, report_skipped
from throughtime.cli.options import DateFormat, SkipBad, Source, Target, check_pictures, refuse
from throughtime.cli.output import Outcome, as_command, say
from throughtime.cli.series_stats import series_stats

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from throughtime.data.dataset import Dataset
    from throughtime.text.statistics import Ngrams
    from throughtime.text.tokenizer import Tokenizer

NGRAMS, TOP = 3, 10


@as_command
def stats(
    data: Annotated[str, typer.Argument(help="A name of the catalogue, or a file.")],
    tokens: Annotated[
        str | None,
        typer.Option(
            help="The tokenizer: char, word, space, unicode, ..., or a tokenizer.json; else the data's own."
        ),
    ] = None,
    normalise: Annotated[
        str | None,
        typer.Option(help="What is done to the text first: none, nfc, lower, letters; for --tokens char."),
    ] = None,
    split: Annotated[str, typer.Option(help="train, valid, test, heldout or all.")] = "all",
    side: Annotated[str | None, typer.Option(help="Of pairs only source or target.")] = None,
    min_freq: Annotated[
        int | None, typer.Option(help="Rarer tokens are not in the vocabulary.", min=1, show_default="1")
    ] = None,
    ngrams: Annotated[
        int | None, typer.Option(help="Count n-grams up to this n.", min=1, max=10, show_default=str(NGRAMS))
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="How many of the most frequent n-grams to show.", min=0, show_default=str(TOP)),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw Zipf's law, or a series' drift, as .png, .svg or .pdf."),
    ] = None,
    source: Source = None,
    target: Target = None,
    date_format: DateFormat = None,
    skip_bad: SkipBad = False,
) -> Outcome:
    """Count the tokens, types and n-grams of a text and fit Zipf's law; of numeric series, show the drift.

    [bold]Examples[/bold]

      throughtime stats timemachine --tokens word

      throughtime stats my-novel.txt --ngrams 2 --plot zipf.png

      throughtime stats series/airline-passengers --plot drift.png
    """
    from throughtime.text.input_warnings import TokenizerCoverage
    from throughtime.text.statistics import Running, ngram_counts

    check_pictures(plot)
    dataset = open_data(data, source=source, target=target, date_format=date_format, skip_bad=skip_bad)
    if dataset.kind == "series":
        refuse(
            f"is for texts, and {data} holds numeric series; leave it out",
            tokens=tokens,
            normalise=normalise,
            side=side,
            min_freq=min_freq,
            ngrams=ngrams,
            top=top,
        )
        values, table = series_stats(dataset, split, plot)
        report_skipped(dataset)
        return Outcome(values | _skipped(dataset), [table])
    tokenizer = _tokenizer(tokens or dataset.tokens, normalise, dataset, split, side)
    coverage = TokenizerCoverage(tokenizer, dataset.name)
    texts = map(coverage.tokenize, dataset.texts(split, side))
    running = Running.of(texts, joined=dataset.layout == "stream")
    report_skipped(dataset)
    for note in coverage.notes():
        say(note)
    counted = [ngram_counts(running, n) for n in range(1, (ngrams or NGRAMS) + 1)]
    values = _values(counted, TOP if top is None else top)
    values |= _vocabulary(tokenizer, counted[0], min_freq, dataset)
    values |= {"tokenizer": tokenizer.name, "data": dataset.name, **_skipped(dataset)}
    if plot is not None:
        from throughtime import plots

        frequencies = {grams.n: grams.counts for grams in counted[:3]}
        plots.zipf(frequencies, title=f"Zipf's law in {dataset.name}", path=plot)
        say(f"wrote {plot}")
    return Outcome(values, _shown(values, " of all splits" if _all_splits(dataset, split) else ""))


def _all_splits(dataset: Dataset, split: str) -> bool:
    """Whether several splits are counted together, while a model's vocabulary is that of train alone."""
    from throughtime.data import catalogue

    if split != "all" or len(dataset.splits) < 2:
        return False
    # A file of one's own is cut into splits only once a model is trained on it.
    return dataset.name in catalogue.names() or dataset.files(dataset.splits[0]) != dataset.files("all")


def _tokenizer(name: str, normalise: str | None, dataset: Dataset, split: str, side: str | None) -> Tokenizer:
    """A rule by its name, a tokenizer trained on the data by its kind, or one that a file describes."""
    from throughtime.text.codec import SUBWORD_SIZE
    from throughtime.text.subword import TRAINED, tokenizer_file
    from throughtime.text.subword_training import train_subword
    from throughtime.text.tokenizer import check_normaliser
    from throughtime.text.tokenizers import tokenizer

    normaliser = normalise or dataset.normaliser_for(name)
    check_normaliser(normaliser, name, "--normalise")
    if name == "char":
        return tokenizer(name, normaliser=normaliser)
    if name in TRAINED:
        return train_subword(name, dataset.texts(split, side), SUBWORD_SIZE)
    if name.endswith(".json"):
        return tokenizer_file(name)
    return tokenizer(name)


def _skipped(dataset: Dataset) -> dict[str, Any]:
    return {"skipped": dataset.bad.count, "skipped_reasons": dict(dataset.bad.reasons)}


def _vocabulary(
    tokenizer: Tokenizer, unigrams: Ngrams, min_freq: int | None, dataset: Dataset
) -> dict[str, Any]:
    """The size of the vocabulary that a model of these tokens has, and its reserved tokens."""
    from throughtime.text.codec import RESERVED, language_reserved, subword_vocabulary
    from throughtime.text.subword import SubwordTokenizer
    from throughtime.text.vocabulary import Vocabulary

    if isinstance(tokenizer, SubwordTokenizer):
        refuse(
            "has no effect with this tokenizer, which has a fixed vocabulary; leave it out", min_freq=min_freq
        )
        return {"vocabulary": len(subword_vocabulary(tokenizer)), "reserved": tokenizer.special_tokens()}
    reserved = RESERVED if dataset.kind in ("pairs", "cards") else language_reserved(dataset.layout)
    counts = {gram[0]: number for gram, number in unigrams.top(unigrams.distinct)}
    vocabulary = Vocabulary.from_counts(counts, min_freq or 1, reserved=reserved)
    return {"vocabulary": len(vocabulary), "reserved": list(reserved), "min_freq": min_freq or 1}


def _values(counted: list[Ngrams], top: int) -> dict[str, Any]:
    from throughtime.text.statistics import bits, coverage, entropy, zipf_fit

    unigrams = counted[0]
    nats = entropy(unigrams.counts)
    rows = []
    for grams in counted:
        fit = zipf_fit(grams.counts)
        rows.append(
            {
                "n": grams.n,
                "total": grams.total,
                "distinct": grams.distinct,
                "possible": grams.possible,
                "zipf_exponent": None if fit is None else fit.exponent,
                "top": [[list(gram), number] for gram, number in grams.top(top)],
            }
        )
    return {
        "tokens": unigrams.total,
        "types": unigrams.distinct,
        "coverage": {str(size): share for size, share in coverage(unigrams.counts).items()},
        "entropy_bits": bits(nats),
        "entropy_nats": nats,
        "ngrams": rows,
    }


def _shown(values: dict[str, Any], of_what: str) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    summary = Table(box=None, show_header=False, title=values["data"], title_justify="left")
    summary.add_column()
    summary.add_column(justify="right")
    summary.add_row(f"tokens ({values['tokenizer']})", f"{values['tokens']:,}")
    summary.add_row("types", f"{values['types']:,}")
    with_what = ", ".join(values["reserved"])
    least = f", min-freq {values['min_freq']}" if "min_freq" in values else ""
    summary.add_row(Text(f"vocabulary{of_what} with {with_what}{least}"), f"{values['vocabulary']:,}")
    for size, share in values["coverage"].items():
        if int(size) < values["types"]:
            summary.add_row(f"covered by the {int(size):,} most frequent types", f"{share:.1%}")
    summary.add_row("entropy of a token", f"{values['entropy_bits']:.3f} bits")
    costs = Table(box=None, title="\nn-grams", title_justify="left")
    for heading in ("n", "total", "stored", "possible", "stored / possible", "Zipf exponent"):
        costs.add_column(heading, justify="right")
    for row in values["ngrams"]:
        exponent = "–" if row["zipf_exponent"] is None else f"{row['zipf_exponent']:.2f}"
        share = row["distinct"] / max(row["possible"], 1)
        numbers = (f"{row[key]:,}" for key in ("total", "distinct", "possible"))
        costs.add_row(str(row["n"]), *numbers, f"{share:.1e}", exponent)
    return [summary, costs, *_most_frequent(values)]


def _most_frequent(values: dict[str, Any]) -> list[Table]:
    from rich.table import Table
    from rich.text import Text

    columns = [row["top"] for row in values["ngrams"]]
    if not any(columns):
        return []
    table = Table(box=None, title="\nmost frequent", title_justify="left")
    for row in values["ngrams"]:
        table.add_column(f"n = {row['n']}")
        table.add_column("", justify="right")
    for place in range(max(map(len, columns))):
        cells: list[Text] = []
        for column in columns:
            gram, number = column[place] if place < len(column) else ([], "")
            # What cannot be seen (a space, a line break) is shown in quotes.
            words = [word if word.strip() and word.isprintable() else repr(word) for word in gram]
            cells += [Text(" ".join(words)), Text(f"{number:,}" if gram else "")]
        table.add_row(*cells)
    return [table]
