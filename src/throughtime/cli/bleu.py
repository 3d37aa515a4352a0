"""`throughtime bleu`: translations in a file against references in others, computed step by step."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.options import Count, OptionalCount
from throughtime.cli.output import Outcome, as_command, build_table
from throughtime.errors import InputError
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from throughtime.metrics.sentence_bleu import NotesBleu

SHOWN_ORDERS = 4


@dataclass(frozen=True)
class Sentence:
    """A tokenized hypothesis, its best reference, and the steps of the sentence BLEU."""

    hypothesis: list[str]
    reference: list[str]
    file: int  # of the reference files, counted from 0
    steps: NotesBleu

    def values(self, number: int, references: Sequence[Path]) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "number": number,
            "hypothesis": self.hypothesis,
            "reference": self.reference,
            "reference_file": str(references[self.file]),
            "bleu": self.steps.value,
            "k": self.steps.k,
            "brevity_penalty": self.steps.brevity_penalty,
            "ngrams": [
                {**asdict(ngram), "precision": ngram.precision, "exponent": ngram.exponent}
                | {"counted": ngram.n <= self.steps.k}
                for ngram in self.steps.ngrams
            ],
        }


@as_command
def bleu(
    hypotheses: Annotated[Path, typer.Argument(metavar="HYP")],
    references: Annotated[list[Path], typer.Argument(metavar="REF...")],
    sentence: Count = 1,
    k: OptionalCount = None,
    language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> Outcome:
    """Score translations in a file: sentence BLEU step by step, sacrebleu's corpus BLEU, and chrF.

    Sentence BLEU, as defined in lecture notes, compares a sentence with one reference; of several references,
    the one with the highest score counts. It is shown in detail for one sentence, and as the mean over all
    sentences.

    [bold]Examples[/bold]

      throughtime bleu translations.txt references.txt

      throughtime bleu translations.txt first.txt second.txt --sentence 7 --json

      throughtime bleu chinese.txt references.txt --language zh

    Args:
        hypotheses: The translations, one per line.
        references: The references: files with the same number of lines. An empty line means that this file
            has no reference for the sentence.
        sentence: Number of the line to show step by step.
        k: Maximum n of n-grams in the sentence BLEU; by default the length of the longest match.
        language: Language, such as zh or mandarin; by default from the script.
    """
    from throughtime.metrics.bleu import choose_tokenizer, corpus_bleu, corpus_chrf

    predictions = _read_lines(hypotheses)
    rows = _read_references(hypotheses, len(predictions), references)
    if sentence > len(predictions):
        count = format_count(len(predictions), "line")
        raise InputError("--sentence", f"is {sentence:,}, but {hypotheses} has {count}")
    texts = [[text for text in row if text] for row in rows]
    chosen = tokenize or choose_tokenizer(language, (text for row in texts for text in row))
    corpus = corpus_bleu(predictions, texts, tokenize=chosen, lowercase=lowercase)
    chrf = corpus_chrf(predictions, texts, lowercase=lowercase)
    scored = _score_sentences(predictions, rows, chosen, lowercase, k)
    average = _mean_scores(scored)
    shown = scored[sentence - 1]
    values = {
        "hypotheses": str(hypotheses),
        "references": [str(path) for path in references],
        "sentences": len(predictions),
        "tokenizer": chosen,
        "bleu": corpus.value,
        "bleu_precisions": list(corpus.precisions),
        "brevity_penalty": corpus.brevity_penalty,
        "hypothesis_tokens": corpus.prediction_length,
        "reference_tokens": corpus.reference_length,
        "chrf": chrf.value,
        "bleu_signature": corpus.signature,
        "chrf_signature": chrf.signature,
        "notes": {**average, "sentence": shown.values(sentence, references)},
    }
    signatures = "\n".join(f"{score.name}|{score.signature}" for score in (corpus, chrf))
    formula = "brevity penalty x p_1^(1/2) x p_2^(1/4) x ... x p_k^(1/2^k)"
    heading = f"[bold]Sentence BLEU of sentence {sentence:,}[/bold], {formula}"
    mean = f"\n[bold]Its mean over {format_count(len(scored), 'sentence')}[/bold]"
    whole = f"\n[bold]sacrebleu over the whole corpus[/bold]\n{corpus}\n{chrf.name} {chrf.value:.2f}"
    steps, means = _step_table(shown, references, k), _mean_table(average)
    return Outcome(values, [heading, *steps, mean, means, f"{whole}\n[dim]{signatures}[/dim]"])


def _read_lines(path: Path) -> list[str]:
    from throughtime.data.source import read_lines

    return [line for _, line in read_lines(path)]


def _read_references(hypotheses: Path, count: int, paths: Sequence[Path]) -> list[list[str]]:
    """For each sentence the line of each file; empty where a file has no reference for it."""
    files = [_read_lines(path) for path in paths]
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != count:
            problem = f"has {format_count(len(lines), 'line')} but {hypotheses} has {count:,}"
            raise InputError(str(path), f"{problem}; line n of each file must belong to sentence n")
    rows = [[line.strip() for line in row] for row in zip(*files, strict=True)]
    for number, row in enumerate(rows, start=1):
        if not any(row):
            problem = "is empty, and so is this line of every other reference file"
            problem = problem if len(paths) > 1 else "is empty"
            raise InputError(str(paths[0]), f"{problem}; each sentence needs a reference", line=number)
    return rows


def _score_sentences(
    predictions: list[str], rows: list[list[str]], tokenize: str, lowercase: bool, k: int | None
) -> list[Sentence]:
    """Each sentence with the reference that gives the highest score; the first one of a tie."""
    from throughtime.metrics.bleu import cut_into_tokens
    from throughtime.metrics.sentence_bleu import notes_bleu_steps

    scored = []
    files = [cut_into_tokens(column, tokenize, lowercase) for column in zip(*rows, strict=True)]
    cut = cut_into_tokens(predictions, tokenize, lowercase)
    for hypothesis, row, *tokens in zip(cut, rows, *files, strict=True):
        scores = [
            Sentence(hypothesis, tokens[file], file, notes_bleu_steps(hypothesis, tokens[file], k))
            for file, text in enumerate(row)
            if text
        ]
        scored.append(max(scores, key=lambda sentence: sentence.steps.value))
    return scored


def _mean_scores(scored: list[Sentence]) -> dict[str, Any]:
    """The mean score and penalty over all sentences, and the mean p_n over those with n tokens or more."""
    from throughtime.metrics.sentence_bleu import ngram_precision

    precisions = []
    for n in range(1, SHOWN_ORDERS + 1):
        long = [sentence for sentence in scored if len(sentence.hypothesis) >= n]
        scores = [ngram_precision(sentence.hypothesis, sentence.reference, n) for sentence in long]
        precisions.append(statistics.fmean(scores) if scores else 0.0)
    bleu = statistics.fmean(sentence.steps.value for sentence in scored)
    penalty = statistics.fmean(sentence.steps.brevity_penalty for sentence in scored)
    return {"bleu": bleu, "brevity_penalty": penalty, "precisions": precisions}


def _step_table(shown: Sentence, references: Sequence[Path], k: int | None) -> list[RenderableType]:
    """The computation for one sentence, from its tokens to its score."""
    from rich.text import Text

    steps = shown.steps
    table = build_table(">n", ">clipped matches", ">p_n", ">exponent", ">factor")
    for ngram in steps.ngrams:
        counted = ngram.n <= steps.k
        powers = (f"1/{2**ngram.n}", f"{ngram.factor:.4f}") if counted else ("-", "not counted")
        matches = f"{ngram.matches} of {ngram.total}"
        table.add_row(str(ngram.n), matches, f"{ngram.precision:.4f}", *powers)
    why = "the longest match" if k is None else "as given" if steps.k == k else "the length of the hypothesis"
    lengths = f"1 - {steps.label_length}/{steps.prediction_length}"
    penalty = f"exp(min(0, {lengths}))" if steps.prediction_length else "of an empty hypothesis"
    factors = [steps.brevity_penalty, *(ngram.factor for ngram in steps.ngrams[: steps.k])]
    product = " x ".join(f"{factor:.4f}" for factor in factors)
    result = f"BLEU {product} = {steps.value:.4f}" if steps.k else "BLEU 0: nothing matches"
    return [
        Text(f"hypothesis  {' '.join(shown.hypothesis)}"),
        Text(f"reference   {' '.join(shown.reference)}   ({references[shown.file]})"),
        table,
        Text(f"k = {steps.k}, {why}\nbrevity penalty {penalty} = {steps.brevity_penalty:.4f}"),
        f"[bold]{result}[/bold]",
    ]


def _mean_table(average: dict[str, Any]) -> Table:
    cells = [average["bleu"], average["brevity_penalty"], *average["precisions"]]
    precisions = (f">p_{n}" for n in range(1, SHOWN_ORDERS + 1))
    return build_table(">BLEU", ">brevity penalty", *precisions, rows=[[f"{cell:.4f}" for cell in cells]])
