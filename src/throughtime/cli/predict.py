"""`throughtime tag`, `fill`, `classify` and `compose`: inputs in, answers out; a command for each task.

A task that names a method of its models as `answers` gets such a command from its declaration.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from throughtime.cli.console import print_text, stdout
from throughtime.cli.inputs import (
    answer_texts,
    load_model,
    one_line,
    read_blocks,
    read_numbers,
    read_sequences,
    read_texts,
)
from throughtime.cli.options import Run, StrategyOptions, search_arguments
from throughtime.cli.output import Outcome, as_command, build_table, flags
from throughtime.errors import InputError
from throughtime.results import Answer
from throughtime.tasks import Task

if TYPE_CHECKING:
    from rich.console import Console

    from throughtime.results import Tagged

Answers = Iterator[tuple[int, Any, Any]]
"""The number of each input, counted from 0, the input, and its answer."""
COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green")
PLAIN = frozenset({"O", "PUNCT"})


class PredictCommand:
    """Answer texts, the lines of a file, or of stdin; print one line for each input line."""

    noun, field, about = "texts", "text", "Texts"
    """What the answers and their inputs are called in JSON, and the inputs in the help."""

    def __init__(self, task: type[Task]) -> None:
        self.task = task

    def declare_inputs(self) -> dict[str, Any]:
        """Declare the options that hold inputs."""
        argument = typer.Argument(
            help=f"{self.about}; without them, --file or stdin is read.",
            metavar=self.noun.removesuffix("s").upper(),
        )
        return {self.noun: Annotated[list[str] | None, argument], "file": Path | None}

    def read(self, options: dict[str, Any]) -> tuple[bool, Iterator[list[Any]]]:
        """Return whether there are inputs on the command line, and all inputs, many at a time."""
        texts = options.pop(self.noun)
        return bool(texts), read_texts(texts, options.pop("file"))

    def check(self, model: Any, blocks: Iterator[list[Any]], where: str | None) -> Iterator[list[Any]]:
        """Return the inputs as the model takes them; `where` is what they are lines of."""
        return blocks

    def input_warnings(self, model: Any) -> Callable[..., dict[str, str]] | None:
        """Return the function that warns about inputs, if there is one."""
        if getattr(model, "vectors", None) is not None:
            return None
        return getattr(model, "input_warnings", None)

    def show(self, answers: Answers, typed: bool, options: Mapping[str, Any]) -> None:
        """Print the answers for people; `typed` inputs are on the command line, others are lines."""
        for _, _, answer in answers:
            print_text(one_line(str(answer)))

    def run(self, run: Path, device: str, options: dict[str, Any]) -> Outcome:
        """Load the model of a run, and answer all inputs."""
        file = options.get("file")
        where = str(file or "stdin")
        typed, blocks = self.read(options)
        model = load_model(run, device, self.task.name)
        if file is not None and getattr(model, "vectors", None) is not None:
            blocks = read_sequences(model, file)
        blocks = self.check(model, blocks, None if typed else where)
        keywords = search_arguments(options)
        if "k" in options and not flags.json:
            keywords.setdefault("k", 5 if typed else 1)
        answer = partial(getattr(model, self.task.answers or ""), **keywords)
        answers = answer_texts(self.input_warnings(model), blocks, answer, lines=not typed)
        if not flags.json:
            self.show(answers, typed, options)
            return Outcome({})
        values = [{self.field: getattr(text, "name", text), **_values(answer)} for _, text, answer in answers]
        seed = {"seed": options["seed"]} if "seed" in options else {}
        return Outcome({"run": str(run), **seed, self.noun: values})


def _values(answer: Any) -> dict[str, Any]:
    return answer.to_dict() if isinstance(answer, Answer) else {"answer": answer}


class TagCommand(PredictCommand):
    """Tag the words of sentences, of the lines of a file, or of stdin; print one line for each input line.

    A line has its words as word/tag, and after a tab the label of the whole sentence if the model gives one.
    With --json each word has its probability and its most likely tags.

    [bold]Examples[/bold]

      throughtime tag runs/ewt "The old man the boats ."

      throughtime tag runs/ewt --tokenize unicode "Don't panic!"

      throughtime tag runs/snips --json "play some jazz"

      throughtime tag runs/steps --file sequences.csv

      cat words.txt | throughtime tag runs/ewt > tagged.txt
    """

    noun, about = "sentences", "Sentences"

    def show(self, answers: Answers, typed: bool, options: Mapping[str, Any]) -> None:
        """Print a line for each sentence."""
        console = stdout()
        for _, given, sentence in answers:
            if hasattr(given, "name"):
                print_text("\t".join([given.name, *sentence.tags]))
                continue
            print_tags(console, sentence)


def print_tags(console: Console, sentence: Tagged) -> None:
    """Print a sentence with its tags; on a terminal each tag has a colour."""
    if not console.is_terminal:
        print_text(sentence.text)
        return
    from rich.text import Text

    text = Text()
    for number, word in enumerate(sentence.words):
        text.append(" " if number else "")
        text.append(word.word)
        text.append(f"/{word.tag}", style=choose_colour(word.tag))
    text.append(f"\t{sentence.label}" if sentence.label else "", style="bold")
    console.print(text, soft_wrap=True)


def choose_colour(tag: str) -> str:
    """The colour of a tag, the same for the beginning and the rest of a chunk.

    >>> choose_colour("B-PER") == choose_colour("I-PER"), choose_colour("O")
    (True, 'dim')
    """
    if tag in PLAIN:
        return "dim"
    return COLOURS[sum(tag.partition("-")[2].encode() or tag.encode()) % len(COLOURS)]


class FillCommand(PredictCommand):
    """Fill the blanks of a sentence with the best words, and show their probabilities.

    A blank is written ___ (two or more underscores) or [MASK] and stands for one token. Several blanks are
    filled one after another, the most certain one first; after each, the --num-beams best partial fillings
    are kept.

    For each line of a file or of stdin, the best filling is printed; with --k, several lines `number ||| text
    ||| probability`. With --json each of the `sentences` has its best filling, and the others as
    `alternatives`.

    [bold]Examples[/bold]

      throughtime fill runs/blanks "I am ___ hungry and I can eat half a cow." --k 10

      throughtime fill runs/blanks "She ___ the ___ every day." --num-beams 50

      throughtime fill runs/blanks --file blanks.txt > filled.txt

    Args:
        k: Number of fillings per sentence; by default 5, or 1 for lines of a file.
    """

    noun, field, about = "sentences", "sentence", "Sentences with blanks"

    def check(self, model: Any, blocks: Iterator[list[Any]], where: str | None) -> Iterator[list[Any]]:
        """Return the texts, each of which has a blank; an empty line has nothing to fill and stays empty."""
        from throughtime.text.framing import BLANK, NO_BLANK

        number = 0
        for block in blocks:
            for text in block:
                number += 1
                if text.strip() and not BLANK.search(text):
                    raise InputError(where or "SENTENCE", NO_BLANK, line=number if where else None)
            yield block

    def show(self, answers: Answers, typed: bool, options: Mapping[str, Any]) -> None:
        """Print all fillings with their probabilities, but for lines without --k only the best one."""
        for number, _, best in answers:
            if not typed and options["k"] is None:
                print_text(one_line(best.text))
                continue
            for filling in (best, *best.alternatives):
                if typed:
                    print_text(f"{filling.probability:6.2%}  {one_line(filling.text)}")
                elif best.tokens:
                    print_text(f"{number} ||| {one_line(filling.text)} ||| {filling.probability:.6f}")


class ClassifyCommand(PredictCommand):
    """Label texts, and show the probabilities of the labels.

    For texts on the command line, the probabilities are drawn as bars. For a file or stdin, one line is
    printed for each input line: its label and probability, and with --k the next most likely labels,
    separated by tabs.

    [bold]Examples[/bold]

      throughtime classify runs/intents "play some jazz"

      cat requests.txt | throughtime classify runs/intents > labels.tsv

      throughtime classify runs/intents --k 2 --json "will it rain in Oslo?"

      throughtime classify runs/gestures --file new.csv

    Args:
        k: Number of labels per text; by default 5, 1 for lines of a file, all with --json.
    """

    def show(self, answers: Answers, typed: bool, options: Mapping[str, Any]) -> None:
        """Print the labels of a line on a line, and those of a text on the command line as bars."""
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        style: dict[str, Any] = {"show_header": False, "title_justify": "left", "padding": (0, 1)}
        for _, text, answer in answers:
            if not typed:
                name = [text.name] if hasattr(text, "name") else []
                ranked = (f"{one_line(label)}\t{share:.4f}" for label, share in answer.ranked)
                print_text("\t".join([*name, *ranked]))
                continue
            rows = [(label, f"{share:7.2%}", ProgressBar(1.0, share, 30)) for label, share in answer.ranked]
            title = Text(one_line(text))
            stdout().print(build_table("", "", "", rows=rows, title=title, pad_edge=False, **style))


class ComposeCommand(PredictCommand):
    """Write texts from a label or a vector, one per line.

    Without --label and --vector, each line of stdin is a label or a vector. Tokens are drawn at random,
    unless --search names another strategy; --greedy and --num-beams choose greedy and beam search.

    [bold]Examples[/bold]

      throughtime compose runs/requests --label GetWeather --num-return-sequences 3 --temperature 0.8

      throughtime compose runs/reports --vector 0.1,-2,30 --num-beams 5

      throughtime compose runs/reviewer --label good --require food --seed 1 --json

    Args:
        label: Label to write a text from; repeatable.
        vector: Vector to write a text from, such as 0.1,0.2; repeatable.
    """

    noun, field = "composed", "condition"

    def declare_inputs(self) -> dict[str, Any]:
        """Declare the options that hold conditions, and those of strategies."""
        conditions: dict[str, Any] = {"label": list[str] | None, "vector": list[str] | None}
        return conditions | get_type_hints(StrategyOptions, include_extras=True)

    def read(self, options: dict[str, Any]) -> tuple[bool, Iterator[list[Any]]]:
        """Return the labels and vectors of the command line, or the lines of stdin."""
        vectors = [read_numbers(text, "--vector", "0.1,0.2") for text in options.pop("vector") or []]
        conditions = [*(options.pop("label") or []), *vectors]
        return bool(conditions), iter([conditions]) if conditions else read_blocks(None)

    def check(self, model: Any, blocks: Iterator[list[Any]], where: str | None) -> Iterator[list[Any]]:
        """Return the conditions, all at once: labels that the model knows, or vectors."""
        labels = model.labels
        kind, other = ("vector", "label") if labels is None else ("label", "vector")
        if where is None:
            conditions = next(blocks)
            if not all(isinstance(condition, str) == (kind == "label") for condition in conditions):
                problem = f"is given, but this model writes from a {kind}; use --{kind}"
                raise InputError(f"--{other}", problem)
        else:
            if sys.stdin.isatty():
                example = f"{model.width} numbers such as 0.1,0.2"
                wanted = example if labels is None else f"one of {', '.join(labels.names)}"
                raise InputError(f"--{kind}", f"is missing: give {wanted}")
            conditions = [line.strip() for block in blocks for line in block]
            for number, line in enumerate(conditions, 1):
                if labels is None:
                    conditions[number - 1] = read_numbers(line, where, "0.1,0.2", number)
                elif line not in labels:
                    known = ", ".join(labels.names)
                    problem = f"is {line!r}, which is not a label; give one of {known}"
                    raise InputError(where, problem, line=number)
        yield conditions

    def input_warnings(self, model: Any) -> None:
        """Labels and vectors are no texts, of which the model might not know a word."""

    def show(self, answers: Answers, typed: bool, options: Mapping[str, Any]) -> None:
        """Print each text on a line."""
        for _, _, best in answers:
            for answer in (best, *best.alternatives):
                print_text(one_line(answer.text))


PREDICTIONS: dict[str, type[PredictCommand]] = {
    "tag": TagCommand,
    "fill": FillCommand,
    "classify": ClassifyCommand,
    "compose": ComposeCommand,
}
"""How people see the answers of our own tasks; those of other tasks are printed as text, one per line."""


def predict_command(task: type[Task]) -> Callable[..., None]:
    """Build the command that answers inputs with a model of this task, from its declaration."""
    prediction = PREDICTIONS.get(task.name, PredictCommand)(task)

    def command(run: Run, *, device: str = "auto", **options: Any) -> Outcome:
        return prediction.run(run, device, options)

    command.__name__ = task.command
    command.__doc__ = inspect.cleandoc(prediction.__doc__ or "")
    if type(prediction) is PredictCommand:
        command.__doc__ += f'\n\n[bold]Example[/bold]\n\n  throughtime {task.command} RUN "a text"'
    keywords = {} if task.prediction is None else get_type_hints(task.prediction, include_extras=True)
    if "k" in keywords:  # how many answers are shown by default depends on where the inputs are
        keywords["k"] = Annotated[int | None, typer.Option(min=1)]
    return as_command(command, {**prediction.declare_inputs(), **keywords})
