"""`throughtime translate`: sentences in, translations out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from throughtime.cli.console import print_text
from throughtime.cli.inputs import answer_texts, is_run, load_model, one_line, read_texts
from throughtime.cli.options import Count, OptionalCount, TranslatingOptions, search_arguments
from throughtime.cli.output import Outcome, as_command, flags, warn

if TYPE_CHECKING:
    from throughtime.results import Progress, Translation
    from throughtime.tasks.translate.config import TranslateConfig

EXAMINED = 20
"""Number of texts of which the language is looked at."""


@as_command
def translate(
    words: Annotated[list[str], typer.Argument(metavar="RUN... [SENTENCE...]")],
    file: Path | None = None,
    num_return_sequences: Count = 1,
    max_length: OptionalCount = None,
    copy_unknown: bool = False,
    device: str = "auto",
    **options: Unpack[TranslatingOptions],
) -> Outcome:
    """Translate sentences, the lines of a file, or stdin; print one line for each input line.

    Several models with the same vocabulary translate together, as an ensemble. The default is beam search;
    --search chooses another strategy, such as diverse, whose translations of a sentence differ more. With
    --json, each translation has its score and, if the model has attention, the source words that each word
    attended to.

    [bold]Examples[/bold]

      throughtime translate runs/en-fr "Where is the station?"

      throughtime translate runs/en-fr "She likes tea." --num-return-sequences 3 --search diverse

      cat english.txt | throughtime translate runs/en-fr > french.txt

      throughtime translate runs/one runs/two --file english.txt --num-beams 10

      throughtime translate runs/en-fr --require chat --json "I have a cat."

      throughtime translate runs/en-fr "Hello!" --search exact --search-option budget=50000

    Args:
        words: Folder of a trained model, or several that translate together; then sentences, unless they come
            from --file or stdin.
        num_return_sequences: Number of translations per sentence; above 1, lines are `number ||| text |||
            score`.
        max_length: Maximum number of tokens of a translation; by default it depends on the source.

    Constraints:
        copy_unknown: For models of whole words: copy unknown words from the source.
    """
    runs, sentences = split_words(words)
    blocks = read_texts(sentences, file)
    from throughtime.tasks.translate.translation import combine_translators

    models = [load_model(run, device, "translate") for run in runs]
    translator = combine_translators(models)
    arguments = search_arguments(options)

    arguments |= {"num_return_sequences": num_return_sequences, "max_length": max_length}
    arguments |= {"copy_unknown": copy_unknown, "align": flags.json}

    def predict(texts: list[str], progress: Progress | None) -> list[Translation]:
        answers = translator.translate(texts, progress=progress, **arguments)
        warn(_language_warning(texts, models[0].config))
        return answers

    results = answer_texts(translator.input_warnings, blocks, predict, lines=not sentences)
    if flags.json:
        values = [{"source": text, **translation.to_dict()} for _, text, translation in results]
        return Outcome({"runs": [str(run) for run in runs], "translations": values})
    for number, _, translation in results:
        print_translations(number, translation, numbered=num_return_sequences > 1)
    return Outcome({})


def _language_warning(texts: list[str], config: TranslateConfig) -> dict[str, str]:
    """A warning if texts seem to be in the target language already; only the first texts are looked at."""
    from throughtime.text.languages import are_translated, language_name

    if not config.source or not config.target:
        return {}
    examined = [text for text in texts if text.strip()][:EXAMINED]
    if not are_translated(examined, config.source, config.target):
        return {}
    subject = "the text looks" if len(texts) == 1 else "most texts look"
    source, target = (language_name(code) for code in (config.source, config.target))
    sentence = f"{subject} like {target}, but this model translates from {source} to {target}"
    return {"language": sentence}


def split_words(words: list[str]) -> tuple[list[Path], list[str]]:
    """The runs that come first, and the sentences after them; the first word is always a run."""
    runs = [words[0], *itertools.takewhile(is_run, words[1:])]
    return [Path(run) for run in runs], words[len(runs) :]


def print_translations(number: int, best: Translation, *, numbered: bool) -> None:
    """Print one line for each translation, with the number of the sentence if there are several."""
    if not numbered:
        print_text(one_line(best.text))
        return
    for translation in (best, *best.alternatives):
        print_text(f"{number} ||| {one_line(translation.text)} ||| {translation.score:.4f}")
