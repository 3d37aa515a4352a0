"""`throughtime translate`: sentences in, sentences out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model, one_line, read_blocks, warn_about
from throughtime.cli.options import Debug, Device, Json, refuse
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.cli.usage import is_run
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.results import Translation
    from throughtime.tasks.translate.translation import SentenceTranslator

RULES, SEARCH = "Constraints", "Search"


@as_command
def translate(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The folder of a trained model, or several of them as one, and then sentences; "
            "else --file or stdin.",
            metavar="RUN... [SENTENCE...]",
        ),
    ],
    file: Annotated[Path | None, typer.Option(help="A file with a sentence a line.")] = None,
    num_beams: Annotated[int | None, typer.Option(help="Hypotheses of the beam; 1 is greedy.", min=1)] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="alpha: a score is log P / length^alpha.", min=0)
    ] = None,
    num_return_sequences: Annotated[
        int,
        typer.Option(
            help="Number of translations to return per sentence, as lines `number ||| text ||| score`.", min=1
        ),
    ] = 1,
    alternatives: Annotated[
        int,
        typer.Option(
            help="Number of alternative translations to show, each different from the others.", min=0, max=332
        ),
    ] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of tokens of a translation; by default it follows from the source.", min=1
        ),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="greedy, beam, diverse, stochastic, sampling or exhaustive.", rich_help_panel=SEARCH
        ),
    ] = "beam",
    groups: Annotated[
        int | None, typer.Option(help="diverse: number of groups of beams.", rich_help_panel=SEARCH)
    ] = None,
    diversity_penalty: Annotated[
        float | None,
        typer.Option(help="diverse: penalty on tokens that earlier groups chose.", rich_help_panel=SEARCH),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            help="beam: drop candidates whose probability is this far below the best one's.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="sampling: below 1 likelier tokens become likelier still.", rich_help_panel=SEARCH),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(help="sampling: draw from this number of likeliest tokens.", rich_help_panel=SEARCH),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="sampling: draw from the fewest tokens of this probability together.", rich_help_panel=SEARCH
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="sampling and stochastic: seed of the random numbers.", rich_help_panel=SEARCH),
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="What the translation begins with.", rich_help_panel=RULES)
    ] = "",
    forbid: Annotated[
        list[str] | None, typer.Option(help="Words that must not appear; repeatable.", rich_help_panel=RULES)
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="Words that must appear; repeatable.", rich_help_panel=RULES)
    ] = None,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(help="Do not repeat any n-gram of this length.", min=1, rich_help_panel=RULES),
    ] = None,
    copy_unknown: Annotated[
        bool,
        typer.Option(
            "--copy-unknown",
            help="Models of whole words: copy what is not in the vocabulary from the source.",
            rich_help_panel=RULES,
        ),
    ] = False,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Translate sentences, lines of a file, or stdin: as many lines come out as went in.

    Several runs with the same vocabulary translate together. With --json each translation has its score and,
    where the model attends, the words that it looked at.

    [bold]Examples[/bold]

      throughtime translate runs/en-fr "Where is the station?"

      throughtime translate runs/en-fr --alternatives 3 "She likes tea."

      cat english.txt | throughtime translate runs/en-fr > french.txt

      throughtime translate runs/one runs/two --file english.txt --num-beams 10

      throughtime translate runs/en-fr --require chat --json "I have a cat."
    """
    if alternatives and num_return_sequences > 1:
        raise InputError("--alternatives", "cannot be used beside --num-return-sequences; choose one")
    if alternatives:
        refuse("is not for --alternatives, which has groups of beams of its own", num_beams=num_beams)
    runs, sentences = divided(words)
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    translator = opened_together(runs, device)
    options: dict[str, Any] = {"groups": groups, "diversity_penalty": diversity_penalty, "limit": limit}
    options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}

    def told(texts: list[str], title: str) -> list[Translation]:
        with progress_bar(title) as advance:
            return translator.translate(
                texts,
                num_beams=num_beams,
                length_penalty=length_penalty,
                num_return_sequences=alternatives + 1 if alternatives else num_return_sequences,
                max_length=max_length,
                search="diverse" if alternatives else search,
                prefix=prefix,
                forbid=forbid or (),
                require=require or (),
                no_repeat_ngram=no_repeat_ngram,
                copy_unknown=copy_unknown,
                align=json,
                progress=advance,
                **options,
            )

    if json:
        texts = sentences or [text for block in read_blocks(file) for text in block]
        found = told(texts, "translating")
        warn_about(translator, texts, None if sentences else 0)
        values = [{"source": text, **one.to_dict()} for text, one in zip(texts, found, strict=True)]
        return Outcome({"runs": [str(run) for run in runs], "translations": values})
    done = 0
    for block in [sentences] if sentences else read_blocks(file):
        found = told(block, f"lines {done + 1:,} to {done + len(block):,}")
        warn_about(translator, block, None if sentences else done)
        for number, one in enumerate(found, done):
            print_one(number, one, numbered=num_return_sequences > 1)
        done += len(block)
    return Outcome({})


def divided(words: list[str]) -> tuple[list[Path], list[str]]:
    """The runs that come first, and the sentences after them; the first word is always a run."""
    runs = [words[0], *itertools.takewhile(is_run, words[1:])]
    return [Path(run) for run in runs], words[len(runs) :]


def opened_together(runs: list[Path], device: str) -> SentenceTranslator:
    """The model of a run, or those of several as one."""
    models = [load_model(run, device, "translate") for run in runs]
    from throughtime.tasks.translate.predictor import combine_translators

    return combine_translators(models)


def print_one(number: int, best: Translation, *, numbered: bool) -> None:
    """A line for each translation, as other tools read them or the others indented below the best."""
    if numbered:
        for one in (best, *best.alternatives):
            print(f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}")
        return
    print(one_line(best.text), flush=True)
    for one in best.alternatives:
        print(f"    {one.score:.2f}  {one_line(one.text)}")
