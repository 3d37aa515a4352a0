"""Several language models as one: P(x) = w_1 P_1(x) + w_2 P_2(x) + ..., with weights chosen on validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.metrics.measures import Floats, Likelihood, check_weights, choose_weights, mix_log_probs
from throughtime.results import Evaluation
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import Memory, SearchState, Step
from throughtime.search.step_model import ScoringModel
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.language_model import LanguageModel, TokenScores, report_likelihood
from throughtime.text.framing import NOTHING

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.data.seen import SeenCount
    from throughtime.tasks.saved import SavedModel

_DIRECTIONS = ("left to right", "right to left")
VALIDATION_TOKENS = 20_000
"""Number of first validation tokens on which weights are chosen: enough for a few, and read quickly."""


def interpolate(
    model: LanguageModel, *others: LanguageModel, weights: Sequence[float] | None = None, data: Any = None
) -> InterpolatedLanguageModel:
    """Combine language models, recurrent or counted: the result generates, scores and evaluates like one.

    The probability of a token is the weighted mean of its probabilities under the models, which must read
    text in the same way, into the same tokens. Without `weights`, those that maximise the likelihood of the
    validation split (its first 20,000 tokens) of `data` are chosen, by default of the data of the first
    model that has any (those of ARPA files have none); they are in the result's `weights`.

    >>> import throughtime as tt
    >>> lines = ["the cat sleeps", "the dog sleeps", "a cat runs"] * 20
    >>> pair, triple = (tt.train("ngram", lines, order=order, progress="none") for order in (2, 3))
    >>> both = tt.interpolate(pair, triple, weights=[0.25, 0.75])
    >>> p, q, mean = (model.score("a cat sleeps")[0].log_probs[2] for model in (pair, triple, both))
    >>> math.isclose(math.exp(mean), 0.25 * math.exp(p) + 0.75 * math.exp(q))
    True
    """
    models = [model, *others]
    if not others:
        raise InputError("others", "is empty; give one or more models to interpolate with")
    for member in models:
        if not isinstance(member, LanguageModel):
            raise InputError("others", f"holds a {type(member).__name__}, expected language models only")
    homes = [member.device for member in models]
    device = next((home for home in homes if home.type != "cpu"), homes[0])
    members = [Member(member, model, device) for member in models]
    if weights is not None:
        return InterpolatedLanguageModel(members, check_weights(weights, len(models)))
    owner = next((member for member in models if data is not None or member.has_data), None)
    if owner is None:
        raise InputError("weights", "cannot be chosen, as none of the models has its own data; give weights")
    dataset = owner.open_data(data)
    if "valid" not in dataset.splits:
        raise InputError(
            "weights", f"cannot be chosen, as {dataset.name} has no validation split; give weights"
        )
    scores = score_members(members, dataset, "valid", limit=VALIDATION_TOKENS)
    chosen = choose_weights(scores.log_probs)
    source = f"{len(scores.ids):,} tokens of {dataset.name}, valid"
    return InterpolatedLanguageModel(members, chosen, source)


class Member(ScoringModel):
    """A language model whose ids are those of another model, the `leader` of an interpolation.

    The vocabularies must hold the same tokens, in any order, but for marks that are never predicted: counted
    models begin a line with <bos>, recurrent ones with the <eos> of the line before.
    """

    def __init__(self, model: LanguageModel, leader: LanguageModel, device: torch.device) -> None:
        self.model, self.device = model, device
        _check_reading(model, leader)
        ids, words = model.codec.vocabulary, leader.codec.vocabulary
        # A mark that this model does not have is never predicted; read in a text, it is an unknown token.
        self._read = [ids[token] if token in ids or ids.unk_id is not None else NOTHING for token in words]
        predicted = [ids[token] if token in ids else len(ids) for token in words]
        self._predicted = torch.tensor(predicted, device=device)
        self._same = list(ids) == list(words)
        self._begin = [] if model.framing.begin_id is None else [model.framing.begin_id]
        inputs = [*self._read, NOTHING]  # the last one is reached by the index NOTHING
        if leader.framing.begin_id is not None:
            inputs[leader.framing.begin_id] = self._begin[0]
        self._inputs = torch.tensor(inputs, device=device)

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, SearchState, Memory]:
        """Read prompts of the leader's ids; see `StepModel`."""
        _, state, memory = self.model.model.start(self._renumber(prompts))
        last = torch.tensor([prompt[-1] if prompt else NOTHING for prompt in prompts], device=self.device)
        return last, _move(state, self.device), _move_memory(memory, self.device)

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Feed one token per row; return ln P of the leader's ids."""
        home = self.model.device
        step = self.model.model.step(
            self._inputs[last].to(home), _move(state, home), _move_memory(memory, home)
        )
        log_probs = step.log_probs.to(self.device)
        if not self._same:
            never = log_probs.new_full((len(log_probs), 1), -math.inf)
            log_probs = torch.cat([log_probs, never], dim=1).index_select(1, self._predicted)
        return Step(log_probs, _move(step.state, self.device))

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """ln P of every id given the ids before it."""
        return self.model.model.log_probs(self._renumber(sequences))

    def score_split(
        self, dataset: Dataset, split: str, *, limit: int | None = None, progress: Progress | None = None
    ) -> TokenScores:
        """Score each token of a split as the model itself reads it; the ids are the leader's."""
        scores = self.model.score_split(dataset, split, limit=limit, progress=progress)
        if self._same:
            return scores
        back = np.full(len(self.model.codec.vocabulary) + 1, NOTHING)  # the last one is that of no token
        back[self._predicted.cpu().numpy()] = np.arange(len(self._predicted))
        return TokenScores(back[scores.ids], scores.log_probs)

    def _renumber(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        return [
            [*self._begin[: len(ids)], *(self._read[token] for token in ids[len(self._begin) :])]
            for ids in sequences
        ]


class InterpolatedSteps(Ensemble, ScoringModel):
    """The members as one step model; one without weight is left out."""

    def __init__(self, members: Sequence[Member], weights: Sequence[float]) -> None:
        self.members = [member for member, weight in zip(members, weights, strict=True) if weight > 0]
        super().__init__(self.members, [weight for weight in weights if weight > 0])

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """ln P of every id given the ids before it."""
        scores = (member.log_probs(sequences) for member in self.members)
        return [mix_log_probs(log_probs, self.weights) for log_probs in zip(*scores, strict=True)]


class InterpolatedLanguageModel(LanguageModel):
    """Language models as one, made by `throughtime.interpolate`.

    It has no folder of its own: save the models, and interpolate them again with these `weights`.
    `chosen_on` names the tokens on which the weights were chosen; None if they were given.
    """

    task = "language"
    model: InterpolatedSteps

    def __init__(
        self, members: Sequence[Member], weights: Sequence[float], chosen_on: str | None = None
    ) -> None:
        first = members[0].model
        super().__init__(InterpolatedSteps(members, weights), first.framing, first.config)
        self.generation = dict(first.generation)
        self.members, self.weights, self.chosen_on = list(members), tuple(weights), chosen_on

    @property
    def models(self) -> list[LanguageModel]:
        """The models, in the order of their weights."""
        return [member.model for member in self.members]

    @property
    def names(self) -> list[str]:
        """A name for each model: what it is made of."""
        return [model.describe().network for model in self.models]

    def count_seen(self, dataset: Dataset, split: str, others: Sequence[SavedModel] = ()) -> SeenCount | None:
        """Count the records of a split that one of the models was trained on."""
        return self.models[0].count_seen(dataset, split, [*self.models[1:], *others])

    @property
    def has_data(self) -> bool:
        """Whether the first model has data, which are those of all."""
        return self.models[0].has_data

    @property
    def device(self) -> torch.device:
        """The device on which the probabilities are mixed."""
        return self.members[0].device

    @property
    def title(self) -> str:
        """The models and their weights in one line."""
        return f"{self.config.data}: {self.weights_in_words}, {self._vocabulary}"

    @property
    def weights_in_words(self) -> str:
        """Each weight with the name of its model."""
        return " + ".join(
            f"{weight:g} x ({name})" for weight, name in zip(self.weights, self.names, strict=True)
        )

    def describe(self) -> Description:
        """The model in words."""
        return Description(
            f"Interpolated language models of {self.config.data}",
            self.weights_in_words,
            self._vocabulary,
            self._tokens,
            [],
            "generate()[0].text",
        )

    def open_data(self, data: Any = None, **options: Any) -> Dataset:
        """Open data as those of the first model were opened."""
        return self.models[0].open_data(data, **options)

    def score_split(
        self, dataset: Dataset, split: str, *, limit: int | None = None, progress: Progress | None = None
    ) -> TokenScores:
        """See `LanguageModel`; each model reads the split as it does alone."""
        scores = score_members(self.model.members, dataset, split, limit=limit, progress=progress)
        return TokenScores(scores.ids, mix_log_probs([*scores.log_probs.T], self.model.weights))

    def likelihood(self, dataset: Dataset, split: str, *, progress: Progress | None = None) -> Likelihood:
        """The likelihood of a split; each model reads it as it does alone."""
        ids, log_probs = self.score_split(dataset, split, progress=progress)
        unk = self.codec.vocabulary.unk_id
        unknown = int((ids == unk).sum()) if unk is not None else 0
        characters = self.framing.characters(dataset.texts(split))
        return Likelihood.of(log_probs.tolist()) + Likelihood(characters=characters, unknown=unknown)

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the perplexity of a split."""
        refuse_options(options, (), "is for a single model, not for interpolated ones")
        likelihood = self.likelihood(dataset, split, progress=progress)
        names = "+".join("-".join(name.replace(",", "").split()) for name in self.names)
        weights = ",".join(f"{weight:g}" for weight in self.weights)
        signature = f"{self.signature(dataset)}|models:{names}|weights:{weights}|device:{self.device.type}"
        report = report_likelihood(likelihood, f"{signature}|precision:float32")
        values = {**report.values, "models": self.names, "weights": list(self.weights)}
        chosen = f"; the weights were chosen on {self.chosen_on}" if self.chosen_on else ""
        return Evaluation(values, report.signature, f"{report.text}\n{self.weights_in_words}{chosen}")

    def save(self, path: Path | str) -> None:
        """Refuse, since there is nothing to store besides the models and their weights."""
        raise InputError("path", "cannot hold an interpolation; save each model, and interpolate them again")

    def export(self, out: Path | str, **options: Any) -> dict[str, Any]:
        """Refuse; see `save`."""
        raise InputError("out", "cannot hold an interpolation; export a single model")


def score_members(
    members: Sequence[Member],
    dataset: Dataset,
    split: str,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> TokenScores:
    """Score the tokens of a split with each model; `log_probs` is [tokens, models]."""
    scores = [member.score_split(dataset, split, limit=limit, progress=progress) for member in members]
    ids = scores[0].ids
    if not all(np.array_equal(other.ids, ids) for other in scores):
        raise InputError("others", f"must read the same tokens as the first model in {dataset.name}, {split}")
    return TokenScores(ids, np.stack([member.log_probs for member in scores], axis=1))


def _check_reading(model: LanguageModel, leader: LanguageModel) -> None:
    """Refuse a model that does not read text into the same tokens as the first one."""
    mine, its = model.framing, leader.framing
    for name, value, expected in (
        ("tokens", _tokenizer(model), _tokenizer(leader)),
        ("layout", *("lines" if framing.marked else "stream" for framing in (mine, its))),
        ("direction", *(_DIRECTIONS[framing.backward] for framing in (mine, its))),
    ):
        if value != expected:
            raise InputError(
                "others", f"holds a model with {name} {value}, but the first has {expected}; train them alike"
            )
    words, expected_words = mine.codec.vocabulary, its.codec.vocabulary
    extra = {*words} - {*expected_words} - {words.token(mark) for mark in mine.never_predicted}
    missing = {*expected_words} - {*words} - {expected_words.token(mark) for mark in its.never_predicted}
    if extra or missing:
        raise InputError(
            "others",
            f"holds a model with another vocabulary: it lacks {len(missing):,} tokens of the first and has "
            f"{len(extra):,} others, such as {min(extra or missing)!r}; train both on the same text with the "
            "same min_freq and max_size",
        )


def _tokenizer(model: LanguageModel) -> str:
    tokenizer = model.codec.tokenizer
    options = ", ".join(f"{name}={value}" for name, value in sorted(tokenizer.options().items()))
    return f"{tokenizer.name} ({options})" if options else tokenizer.name


def _move(state: SearchState, device: torch.device) -> SearchState:
    return tuple(tensor.to(device) for tensor in state)


def _move_memory(memory: Memory, device: torch.device) -> Memory:
    return Memory(_move(memory.kept, device), memory.owner.to(device), memory.rows_each)
