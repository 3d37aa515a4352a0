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
    from throughtime.tasks.translate.translation import SentenceTranslator, Translation

RULES = "Constraints"


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
            help="Number of alternative translations to show, each different from the others.", min=0
        ),
    ] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of tokens of a translation; by default it follows from the source.", min=1
        ),
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
    from throughtime.tasks.translate.decoding_constraints import DecodingConstraints

    if alternatives and num_return_sequences > 1:
        raise InputError("--alternatives", "cannot be used beside --num-return-sequences; choose one")
    if alternatives:
        refuse("is not for --alternatives, which has groups of beams of its own", num_beams=num_beams)
    runs, sentences = divided(words)
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    constraints = DecodingConstraints(prefix, tuple(forbid or ()), tuple(require or ()), no_repeat_ngram)
    translator = opened_together(runs, device)
    if copy_unknown:
        translator.check_copying()
    search = translator.unlike_each_other(alternatives, length_penalty) if alternatives else None

    def told(texts: list[str], title: str) -> list[list[Translation]]:
        with progress_bar(title) as advance:
            found = translator.translate(
                texts,
                num_beams=num_beams,
                length_penalty=length_penalty,
                num_return_sequences=num_return_sequences,
                max_length=max_length,
                search=search,
                constraints=constraints if constraints != DecodingConstraints() else None,
                copy_unknown=copy_unknown,
                align=json,
                progress=advance,
            )
        return [own[: max(num_return_sequences, alternatives + 1)] for own in found]

    if json:
        texts = sentences or [text for block in read_blocks(file) for text in block]
        found = told(texts, "translating")
        warn_about(translator, texts, None if sentences else 0)
        values = [_values(*one) for one in zip(texts, found, strict=True)]
        return Outcome({"runs": [str(run) for run in runs], "translations": values})
    done = 0
    for block in [sentences] if sentences else read_blocks(file):
        found = told(block, f"lines {done + 1:,} to {done + len(block):,}")
        warn_about(translator, block, None if sentences else done)
        for number, own in enumerate(found, done):
            print_one(number, own, numbered=num_return_sequences > 1)
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


def print_one(number: int, found: list[Translation], *, numbered: bool) -> None:
    """A line for each translation, as other tools read them or the others indented below the best."""
    if numbered:
        for one in found:
            print(f"{number} ||| {one_line(one.text)} ||| {one.score:.4f}")
        return
    print(one_line(found[0].text), flush=True)
    for one in found[1:]:
        print(f"    {one.score:.2f}  {one_line(one.text)}")


def _values(source: str, found: list[Translation]) -> dict[str, Any]:
    first, *others = found
    return {"source": source, **first.values(), "alternatives": [one.values() for one in others]}
