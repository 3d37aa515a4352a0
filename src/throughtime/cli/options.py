"""Options that several commands share, each declared once, and groups of options that go together.

A command takes a group as `**options: Unpack[StrategyOptions]`; `as_command` writes its options out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_args

import typer

from throughtime.errors import InputError
from throughtime.runtime.keywords import MAX_SEED, SEARCH, Keyword, PrefixRules, SearchOptions

DATA, OUTPUT, TRANSLATION = "Data", "Output", "Translation"
INTERPOLATION = "Interpolation of language models"
"""Titles of groups of options in the help."""


def option(text: str | None, *names: str, panel: str | None = None, **more: Any) -> Any:
    """An option with its help; `names` are needed for switches and where a name is not the parameter's."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def keyword_option(name: str, hint: Any) -> Any:
    """The option for a keyword of a prediction, from its type and its `Keyword`."""
    kind, keyword = get_args(hint)
    kinds = {bool | None: bool, Sequence[str]: list[str] | None}
    names = [f"--{name.replace('_', '-')}"] * (kind in (bool, bool | None))
    info = option(keyword.help, *names, panel=keyword.group, min=keyword.min, max=keyword.max)
    return Annotated[kinds.get(kind, kind), info]


Count = Annotated[int, typer.Option(min=1)]
OptionalCount = Annotated[int | None, typer.Option(min=1)]
"""Numbers from 1 on, whose help is in the docstring of the command."""
RUN_HELP = "Folder of a trained model."
Run = Annotated[Path, typer.Argument(help=RUN_HELP, metavar="RUN")]
Runs = Annotated[list[Path], typer.Argument(help="Folders of trained models.", metavar="RUN...")]
DataName = Annotated[
    str,
    typer.Argument(help="Name from `throughtime data list`, a file, or a folder of splits.", metavar="DATA"),
]
Tokens = Annotated[
    str | None,
    option("Tokenizer: char, word, space, unicode, ..., or a tokenizer.json; by default the data's own."),
]
MinFreq = Annotated[int | None, option("Minimum frequency of tokens in the vocabulary; 1 by default.", min=1)]
Device = Annotated[str, option("Device to compute on: auto, cpu, cuda, cuda:1, ...")]
Split = Annotated[
    str, option("Split of the data: train, valid, test, heldout (valid and test) or all.", panel=DATA)
]
Data = Annotated[
    str | None, option("Data to use; by default the data that the model was trained on.", panel=DATA)
]
Source = Annotated[
    str | None, option("For pairs: source language, such as en, or its column in a table.", panel=DATA)
]
Target = Annotated[
    str | None, option("For pairs: target language, such as fr, or its column in a table.", panel=DATA)
]
DateFormat = Annotated[
    str | None,
    option("For series: format of dates, such as %d.%m.%Y; by default detected.", panel=DATA),
]
SkipBad = Annotated[
    bool, option("Skip records that cannot be read, and count them.", "--skip-bad", panel=DATA)
]
File = Annotated[Path | None, option("Read the texts from a file, one per line.")]
Out = Annotated[Path, option("Folder to write; it must not exist yet.", "--out")]
Plot = Annotated[Path | None, option("Draw a figure: .png, .svg or .pdf.")]
Seed = Annotated[
    int | None,
    # The largest seed that both torch and numpy accept.
    option("Seed of the random numbers; equal seeds give equal results.", min=0, max=MAX_SEED),
]
Tokenize = Annotated[
    str | None,
    option(
        "sacrebleu tokenizer: 13a, zh, char, none, ...; by default chosen by language.", panel=TRANSLATION
    ),
]
Weights = Annotated[
    str | None,
    option(
        "With --with: weight of each model, such as 0.7,0.3; by default chosen on the validation split.",
        metavar="W,W",
        panel=INTERPOLATION,
    ),
]
Lowercase = Annotated[bool, option("Ignore case.", "--lowercase", panel=TRANSLATION)]
Json = Annotated[
    bool, option("Print one JSON object on stdout; messages go to stderr.", "--json", panel=OUTPUT)
]
TrustChanged = Annotated[
    bool,
    option(
        "Load the model even if its files were changed after it was saved.", "--trust-changed", panel=OUTPUT
    ),
]
Debug = Annotated[bool, option("Show the traceback of an error.", "--debug", panel=OUTPUT)]


class InterpolationOptions(TypedDict):
    """Further language models, which the model is interpolated with."""

    others: Annotated[
        list[Path] | None,
        option(
            "Interpolate with this language model, n-gram or recurrent; repeatable.",
            "--with",
            metavar="RUN",
            panel=INTERPOLATION,
        ),
    ]
    weights: Weights


class StrategyOptions(SearchOptions):
    """How to search for texts; each strategy takes some of the options."""

    limit: Annotated[
        float | None,
        Keyword(
            "beam: drop candidates whose probability is more than this below the best (0 to 1).", group=SEARCH
        ),
    ]
    groups: Annotated[int | None, Keyword("diverse: number of groups of beams.", group=SEARCH)]
    diversity_penalty: Annotated[
        float | None, Keyword("diverse: penalty on tokens that earlier groups chose.", group=SEARCH)
    ]
    search_option: Annotated[
        list[str] | None,
        option("Any other option of the strategy; repeatable.", metavar="NAME=VALUE", panel=SEARCH),
    ]


class ShortlistOptions(TypedDict):
    """Which tokens translations may use."""

    shortlist: Annotated[
        int | None,
        option(
            "Candidates per source token; 0: all target tokens. By default 30 on a CPU.",
            min=0,
            metavar="N",
            panel=TRANSLATION,
        ),
    ]


class TranslatingOptions(StrategyOptions, PrefixRules, ShortlistOptions):
    """Options of `translate`."""


class ScoringOptions(ShortlistOptions):
    """How to search for translations and score them."""

    num_beams: Annotated[int | None, option("Number of beams; 1 is greedy search.", min=1, panel=TRANSLATION)]
    length_penalty: Annotated[
        float | None,
        option("Score texts by log P / length^X; 0 prefers short ones.", min=0, panel=TRANSLATION),
    ]
    tokenize: Tokenize
    lowercase: Lowercase


class SeriesOptions(TypedDict):
    """How the data of a forecaster are read, and what is forecast."""

    h: Annotated[
        int | None,
        option("Number of rows to forecast; by default as in training.", "--h", min=1, max=100_000),
    ]
    level: Annotated[
        list[float] | None, option("Level of an interval to report, in per cent, such as 80; repeatable.")
    ]
    data: Data
    date_format: DateFormat
    skip_bad: SkipBad


def select_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are None, or False for a switch.

    >>> select_given({"top_k": 5, "top_p": None, "greedy": False, "seed": 0})
    {'top_k': 5, 'seed': 0}
    """
    return {name: value for name, value in options.items() if value is not None and value is not False}


def search_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a search as keywords, with those of --search-option among them.

    >>> search_arguments({"search": "exact", "num_beams": None, "search_option": ["budget=100"]})
    {'search': 'exact', 'budget': '100'}
    """
    arguments = select_given(options)
    for name, value in read_pairs(arguments.pop("search_option", []), "--search-option").items():
        name = name.replace("-", "_")
        if name in arguments:
            raise InputError("--search-option", f"gives {name}, which is given as an option too; choose one")
        arguments[name] = value
    if "greedy" in (arguments.get("search"), *arguments) and "num_beams" not in arguments:
        names = set(StrategyOptions.__annotations__) - {"search"}
        refuse(
            "has no effect on greedy search; leave it out",
            **{k: v for k, v in arguments.items() if k in names},
        )
    return arguments


def read_pairs(words: Sequence[str], where: str) -> dict[str, str]:
    """Read words of the form NAME=VALUE.

    >>> read_pairs(["source=en", "header="], "--option")
    {'source': 'en', 'header': ''}
    """
    pairs = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or not name:
            raise InputError(where, f"is {word!r}, expected NAME=VALUE")
        pairs[name] = value
    return pairs


def check_pictures(*paths: Path | None) -> None:
    """Refuse figures that cannot be written before the long work, not after it."""
    from throughtime.files import check_file
    from throughtime.plots.style import check_format, import_matplotlib

    for path in paths:
        if path is not None:
            check_format(path)
            check_file(path)
            import_matplotlib()


def refuse(problem: str, **options: object) -> None:
    """Refuse options that would have no effect together with others; one that was not given is None.

    >>> refuse("goes with --beam; leave it out", layer=None, num_beams=5)
    Traceback (most recent call last):
    throughtime.errors.InputError: --num-beams: goes with --beam; leave it out
    """
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}", problem)
