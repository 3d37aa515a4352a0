"""All search strategies side by side: what each finds for one sentence, and how much of the model it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning
from throughtime.inspection.translation import read_sentence
from throughtime.results import Answer
from throughtime.search.generate import Finished, Memory, SearchState, Step
from throughtime.search.step_model import StepModel, WrappedModel
from throughtime.search.strategies import STRATEGIES, strategy_options

if TYPE_CHECKING:
    from throughtime.tasks.language_model import LanguageModel
    from throughtime.tasks.translate.translation import SentenceTranslator

    SearchableModel = SentenceTranslator | LanguageModel

PROMPTED = 20
"""Maximum number of tokens that a language model writes after a prompt, unless told otherwise."""

Run = Callable[[str, StepModel, dict[str, Any]], list[Finished]]
"""Search with the strategy of this name and these options, and return the results, best first."""


@dataclass(frozen=True)
class SearchRow(Answer):
    """The best result of one search, or the reason why it cannot run."""

    search: str
    text: str | None = None  # None if the search cannot run
    log_prob: float | None = None  # ln P of the whole result
    score: float | None = None  # what the search ranks its results by
    tokens: int | None = None  # without the end token
    ended: bool | None = None  # False if the result was cut at the maximum length
    steps: int = 0  # number of calls of the model
    hypotheses: int = 0  # number of hypotheses that the model continued in all these calls
    note: str | None = None  # why it cannot run, or a warning about its result


@dataclass(frozen=True)
class SearchComparison(Answer):
    """One row for each search, in the order of `STRATEGIES`; `text` is the sentence or the prompt."""

    text: str
    max_length: int  # maximum number of tokens of a result
    seed: int
    rows: tuple[SearchRow, ...]

    def __getitem__(self, search: str) -> SearchRow:
        """The row of a search by its name."""
        return {row.search: row for row in self.rows}[search]


class CountingModel(WrappedModel):
    """A step model that counts how often it is called, and for how many hypotheses."""

    def __init__(self, model: StepModel) -> None:
        super().__init__(model)
        self.steps = self.hypotheses = 0

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Feed one token per row, and count the rows."""
        self.steps, self.hypotheses = self.steps + 1, self.hypotheses + len(last)
        return super().step(last, state, memory)


def check_searchable(model: Any) -> None:
    """Raise unless a model is a translator or a language model that continues a prompt."""
    if not hasattr(model, "run_search") and not (hasattr(model, "framing") and hasattr(model, "write")):
        raise InputError("model", "is neither a translator nor a language model; searches need one")


def compare_searches(
    model: SearchableModel,
    text: str,
    *,
    max_length: int | None = None,
    num_beams: int | None = None,
    seed: int = 0,
) -> SearchComparison:
    """Run every registered search on one sentence of a translator, or one prompt of a language model.

    Options are the model's own defaults. `max_length` is the maximum number of tokens of a result; by default
    it follows from the sentence, and is 20 after a prompt. `num_beams` is for all searches with beams;
    diverse search then has one group for each beam. A search that cannot run says why in its row.
    """
    check_searchable(model)
    if hasattr(model, "run_search"):
        most, step_model, run, decode = _prepare_translator(model, text, max_length)
    else:
        most, step_model, run, decode = _prepare_writer(model, text, max_length)
    rows = []
    for name in STRATEGIES:
        counting = CountingModel(step_model)
        result, note = _run_search(name, counting, run, num_beams, seed)
        row = SearchRow(name, steps=counting.steps, hypotheses=counting.hypotheses, note=note)
        if result is not None:
            figures = {name: getattr(result, name) for name in ("log_prob", "score", "ended")}
            row = replace(row, text=decode(result.tokens), tokens=len(result.tokens), **figures)
        rows.append(row)
    return SearchComparison(text, most, seed, tuple(rows))


Prepared = tuple[int, StepModel, Run, Callable[[Sequence[int]], str]]
"""The maximum length, the model that is searched, how to search it, and the text of a result."""


def _prepare_translator(translator: Any, text: str, max_length: int | None) -> Prepared:
    from throughtime.runtime.search import batches_by_length

    prompt = read_sentence(translator, text)
    [(most, _)] = batches_by_length([prompt], max_length)

    def run(name: str, model: StepModel, options: dict[str, Any]) -> list[Finished]:
        search = translator.build_search(name, **options)
        [result] = translator.run_search([prompt], search, max_length=most, model=model)
        results: list[Finished] = result.results
        return results

    return most, translator.step_model, run, translator.codecs.target.decode


def _prepare_writer(writer: Any, text: str, max_length: int | None) -> Prepared:
    prompt, most = writer.framing.ids(text, end=False), max_length or PROMPTED

    def run(name: str, model: StepModel, options: dict[str, Any]) -> list[Finished]:
        strategy = writer.strategy(search=name, max_new_tokens=most, **options)
        [results] = writer.write([prompt], strategy, most, model=model)
        return list(results)

    return most, writer.model, run, lambda tokens: writer.framing.text([*prompt, *tokens])


def _run_search(
    name: str, model: CountingModel, run: Run, num_beams: int | None, seed: int
) -> tuple[Finished | None, str | None]:
    """The best result of a search, or None with the reason; a warning of the search is a note, too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ThroughtimeWarning)
        try:
            known = strategy_options(name)
            options: dict[str, Any] = {"seed": seed} if "seed" in known else {}
            if num_beams is not None and "num_beams" in known:
                options |= {"num_beams": num_beams} | ({"groups": num_beams} if "groups" in known else {})
            results = run(name, model, options)
        except ThroughtimeError as error:
            return None, str(error).removeprefix(f"{name} search: ")
    ours = [str(one.message) for one in caught if issubclass(one.category, ThroughtimeWarning)]
    notes = [message.removeprefix(f"{name} search ") for message in ours]
    if not results:
        return None, "found nothing"
    return results[0], "; ".join(notes) or None
