"""Options that several commands share, each declared once, and groups of options that go together.

A command takes a group as `**options: Unpack[StrategyOptions]`; `as_command` writes its options out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from throughtime.errors import InputError
from throughtime.runtime.keywords import Keyword, PrefixRules, SearchOptions


class Shared:
    """The help of options that several commands share.

    Args:
        run: Folder of a trained model.
        runs: Folders of trained models.
        name: A corpus, such as `ptb`, `multi30k/tok` or `series/ETTh1`.
        device: Device to compute on: auto, cpu, cuda, cuda:1, ...
        tokens: Tokenizer: char, word, space, unicode, ..., or a tokenizer.json; by default the data's own.
        min_freq: Minimum frequency of tokens in the vocabulary; 1 by default.
        file: Read the texts from a file, one per line.
        out: Folder to write; it must not exist yet.
        plot: Draw a figure: .png, .svg or .pdf.
        h: Number of rows to forecast; by default as in training.
        level: Level of an interval to report, in per cent, such as 80; repeatable.

    Data:
        split: Split of the data: train, valid, test, heldout (valid and test) or all.
        data: Data to use; by default the data that the model was trained on.
        source: For pairs: source language, such as en, or its column in a table.
        target: For pairs: target language, such as fr, or its column in a table.
        date_format: For series: format of dates, such as %d.%m.%Y; by default detected.
        skip_bad: Skip records that cannot be read, and count them.
        text: Column of the texts; by default found by its usual name.
        label: Column of the labels; by default found by its usual name.
        condition: Column of the labels or vectors; by default found like that.
        words: Column of the words of each sentence.
        tags: Column of the tags of these words.
        id: Column of the names of series; by default the only one of text.
        time: Column of the times; by default the one with dates.
        known: Column whose future values are known; repeatable.
        past: Column that helps up to the last row; repeatable.

    Search:
        limit: beam: drop candidates whose probability is more than this below the best (0 to 1).
        groups: diverse: number of groups of beams.
        diversity_penalty: diverse: penalty on tokens that earlier groups chose.
        search_option: Any other option of the strategy; repeatable.

    Translation:
        shortlist: Candidates per source token; 0: all target tokens. By default 30 on a CPU.
        num_beams: Number of beams; 1 is greedy search.
        length_penalty: Score texts by log P / length^X; 0 prefers short ones.
        tokenize: sacrebleu tokenizer: 13a, zh, char, none, ...; by default chosen by language.
        lowercase: Ignore case.

    Interpolation of language models:
        others: Interpolate with this language model, n-gram or recurrent; repeatable.
        weights: With --with: weight of each model, such as 0.7,0.3; by default chosen on the validation
            split.

    Output:
        trust_changed: Load the model even if its files were changed after it was saved.
        json: Print one JSON object on stdout; messages go to stderr.
        debug: Show the traceback of an error.
    """


def option(text: str | None, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Declare an option; `names` are needed for switches and where a name is not the parameter's."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def keyword_option(name: str, hint: Any) -> Any:
    """Return the option for a keyword of a prediction, from its type and its `Keyword`."""
    kind, keyword = get_args(hint)
    kinds = {bool | None: bool, Sequence[str]: list[str] | None}
    names = [f"--{name.replace('_', '-')}"] * (kind in (bool, bool | None))
    info = option(keyword.help, *names, panel=keyword.group, min=keyword.min, max=keyword.max)
    return Annotated[kinds.get(kind, kind), info]


Count = Annotated[int, typer.Option(min=1)]
OptionalCount = Annotated[int | None, typer.Option(min=1)]
"""Numbers from 1 on."""
Run = Annotated[Path, typer.Argument(metavar="RUN")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...")]
Others = Annotated[list[Path] | None, typer.Option("--with", metavar="RUN")]
Weights = Annotated[str | None, typer.Option(metavar="W,W")]


class InterpolationOptions(TypedDict):
    """Further language models, which the model is interpolated with."""

    others: Others
    weights: Weights


class StrategyOptions(SearchOptions):
    """How to search for texts; each strategy takes some of the options."""

    limit: float | None
    groups: int | None
    diversity_penalty: float | None
    search_option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")]


class ShortlistOptions(TypedDict):
    """Which tokens translations may use."""

    shortlist: Annotated[int | None, typer.Option(min=0, metavar="N")]


class TranslatingOptions(StrategyOptions, PrefixRules, ShortlistOptions):
    """Options of `translate`."""


class ScoringOptions(ShortlistOptions):
    """How to search for translations and score them."""

    num_beams: OptionalCount
    length_penalty: Annotated[float | None, typer.Option(min=0)]
    tokenize: str | None
    lowercase: bool


class SeriesOptions(TypedDict):
    """How the data of a forecaster are read, and what is forecast."""

    h: Annotated[int | None, typer.Option(min=1, max=100_000)]
    level: list[float] | None
    data: str | None
    date_format: str | None
    skip_bad: bool


def select_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given; the others are None, or False for a switch.

    >>> select_given({"top_k": 5, "top_p": None, "greedy": False, "seed": 0})
    {'top_k': 5, 'seed': 0}
    """
    return {name: value for name, value in options.items() if value is not None and value is not False}


def search_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search as keywords, with those of --search-option among them.

    >>> search_arguments({"search": "exact", "num_beams": None, "search_option": ["budget=100"]})
    {'search': 'exact', 'budget': '100'}
    """
    arguments = select_given(options)
    for name, value in read_pairs(arguments.pop("search_option", []), "--search-option").items():
        name = name.replace("-", "_")
        if name in arguments:
            raise InputError("--search-option", f"gives {name}, which is given as an option too; choose one")
        arguments[name] = value
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


COMMON_OPTIONS = ("trust_changed", "json", "debug")
"""The options whose values are in `flags`."""


def list_parameters(
    command: Callable[..., Any], group: Mapping[str, Any] | None
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command with those of its group written out, and the options that all have.

    Those after `*` come after the group.
    """
    hints, helps = get_type_hints(command, include_extras=True), read_help(Shared)[1] | read_help(command)[1]
    declared = inspect.signature(command).parameters
    for parameter in sorted(
        declared.values(), key=lambda parameter: parameter.kind is parameter.KEYWORD_ONLY
    ):
        name = parameter.name
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter.replace(
                kind=parameter.KEYWORD_ONLY, annotation=add_help(name, hints[name], helps)
            )
            continue
        if group is None:
            (kind,) = get_args(hints[name])
            helps = read_help(Shared)[1] | read_help(kind)[1] | read_help(command)[1]
            group = get_type_hints(kind, include_extras=True)
        for key, hint in group.items():
            if key not in declared:  # the command may declare an option in its own way
                yield build_parameter(key, hint, helps)
    for name in COMMON_OPTIONS:
        if name != "trust_changed" or {"run", "runs", "words", "resume"} & {*hints, *(group or ())}:
            yield build_parameter(name, bool, helps)


def read_help(command: Callable[..., Any]) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """Read a docstring: its text without the sections of options, and the panel and help of each option."""
    paragraphs, helps = [], {}
    for paragraph in inspect.cleandoc(command.__doc__ or "").split("\n\n"):
        title, _, section = paragraph.partition(":\n    ")
        if not section or "\n" in title:
            paragraphs.append(paragraph)
            continue
        panel = None if title == "Args" else title
        for described in re.split(r"\n {4}(?! )", section):
            name, _, text = described.partition(": ")
            helps[name] = (panel, " ".join(text.split()))
    return "\n\n".join(paragraphs), helps


Helps = Mapping[str, tuple[str | None, str]]
"""The panel and the help of options, by name."""


def build_parameter(name: str, hint: Any, helps: Helps) -> inspect.Parameter:
    """Return the parameter of an option of a group, or of a keyword of a prediction."""
    default = None
    if isinstance(keyword := (*get_args(hint), None, None)[1], Keyword):
        hint, default = keyword_option(name, hint), keyword.default or None
    hint = add_help(name, hint, helps)
    if get_args(hint)[0] is bool:
        default = False
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def add_help(name: str, hint: Any, helps: Helps) -> Any:
    """Return the annotation of a parameter as an option with help; a switch has no `--no-...`."""
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    info = copy(metadata[0]) if metadata else option(None, *[f"--{name.replace('_', '-')}"] * (kind is bool))
    if info.help is None:
        info.rich_help_panel, info.help = helps[name]
    return Annotated[kind, info]


def option_names(command: Callable[..., None]) -> dict[str, str]:
    """Return the options of a command by the names of its parameters; arguments are left out."""
    options = {}
    for parameter, hint in command.__annotations__.items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # In an annotation, the first name of an option is in the place of its default.
                names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
                options[parameter] = names[0] if names else f"--{parameter.replace('_', '-')}"
    return options


def join_paragraphs(text: str) -> str:
    r"""Put each paragraph of a docstring in one line, so that help fills the terminal, however wide it is.

    >>> join_paragraphs("One line of a paragraph,\n    and another.\n\n      an example")
    'One line of a paragraph, and another.\n\n  an example'
    """
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in inspect.cleandoc(text).split("\n\n"))
