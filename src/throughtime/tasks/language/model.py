"""A language model for people: text in, text and numbers out, whatever counts or learns underneath."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from throughtime.errors import InputError
from throughtime.metrics.likelihood import Likelihood
from throughtime.results import Evaluation, Generated, Scored
from throughtime.tasks.base import Predictor
from throughtime.text.texts import check_text, check_texts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from throughtime.data.datasets import Dataset
    from throughtime.search import Strategy
    from throughtime.search.interface import Memory, State, Step
    from throughtime.tasks.language.framing import Framing

SENTENCES_AT_ONCE = 4_096


class ScoringModel(Protocol):
    """A step model that also scores whole sequences at once."""

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, State, Memory]:
        """See `throughtime.search.StepModel`."""
        ...

    def step(self, last: Any, state: State, memory: Memory) -> Step:
        """See `throughtime.search.StepModel`."""
        ...

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float64]]:
        """ln P of every id given those before it."""
        ...


class LanguageModel(Predictor):
    """A model that scores and writes texts; its assets are the framing in which it reads them."""

    generation_defaults = {"do_sample": True, "max_new_tokens": 100}  # noqa: RUF012 - never changed
    model: ScoringModel
    assets: Framing

    @property
    def framing(self) -> Framing:
        """How it reads text."""
        return self.assets

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the text that the vocabulary was built from."""
        return self.framing.codec.notes

    def input_warnings(self, texts: str | Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.framing.codec.warnings.of(check_texts(texts), **how)

    def score(self, texts: str | Sequence[str]) -> list[Scored]:
        """How likely each text is, token by token, in the order of the texts.

        A model of a stream has no token for the end of a text, so an empty text has no tokens to score.
        """
        texts = check_texts(texts)
        sequences = [self.framing.ids(text) for text in texts]
        skip, words = self.framing.given, self.framing.codec.vocabulary
        found = iter(self.model.log_probs([ids for ids in sequences if ids]))
        log_probs = [next(found)[skip:].tolist() if ids else [] for ids in sequences]
        return [
            Scored(text, tuple(words.tokens(ids[skip:])), tuple(own))
            for text, ids, own in zip(texts, sequences, log_probs, strict=True)
        ]

    def likelihood(self, dataset: Dataset, split: str) -> Likelihood:
        """The likelihood of a whole split; a stream is scored as the one sequence it is."""
        total = Likelihood()
        unk, texts = self.framing.codec.vocabulary.unk_id, iter(dataset.texts(split))
        while batch := list(islice(texts, SENTENCES_AT_ONCE) if self.framing.marked else texts):
            sequences = self.framing.sequences(batch)
            for ids, log_probs in zip(sequences, self.model.log_probs(sequences), strict=True):
                total += Likelihood.of(float(p) for p in log_probs[self.framing.given :])
                total += Likelihood(unknown=ids.count(unk) if unk is not None else 0)
            total += Likelihood(characters=self.framing.characters(batch))
        if not total.tokens:
            raise InputError(f"{dataset.name}, split {split}", "holds no token to score")
        return total

    def signature(self, dataset: Dataset) -> str:
        """How text is read."""
        codec = self.framing.codec
        return f"layout:{dataset.layout}|tokens:{codec.tokenizer.name}|vocabulary:{codec.hash[:12]}"

    def generate(
        self,
        prompt: str = "",
        *,
        max_new_tokens: int | None = None,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        num_return_sequences: int = 1,
        seed: int | None = None,
        strategy: Strategy | None = None,
    ) -> list[Generated]:
        """Continue a prompt, the most likely text first; defaults come from generation_config.json.

        The options are those of an exported model. Greedy search gives the same text as the exported model.
        With sampling, equal seeds give equal texts on the same kind of device; the exported model draws other
        texts from the same distribution. `strategy` replaces `greedy`, `temperature` and the other options.
        """
        from throughtime.search import generate

        options: dict[str, Any] = {
            "greedy": greedy,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "num_return_sequences": num_return_sequences,
            "seed": seed,
        }
        if strategy is None:
            strategy = self.strategy(**options)
        else:
            defaults = {"num_return_sequences": 1}
            for name, value in options.items():
                if value != defaults.get(name):
                    raise InputError(name, "cannot be given together with strategy; leave one of them out")
        ids = self.framing.ids(check_text(prompt, "prompt"), end=False)
        results = generate(self.model, [ids], strategy, max_new_tokens=self._cap(max_new_tokens))
        return [
            Generated(self.framing.text([*ids, *one.tokens]), one.log_prob, one.ended) for one in results[0]
        ]

    def stream(
        self, prompt: str = "", *, max_new_tokens: int | None = None, strategy: Strategy | None = None
    ) -> Iterator[str]:
        """The prompt and its continuation, piece by piece, as they are written; memory does not grow."""
        import torch

        from throughtime.search import moments
        from throughtime.tasks.language.framing import WINDOW

        if self.framing.backward:
            raise InputError("a right-to-left model cannot stream: its first word comes last")
        ids = self.framing.ids(check_text(prompt, "prompt"), end=False)
        window = deque(ids, maxlen=WINDOW)
        yield self.framing.text(ids)
        steps = moments(
            self.model,
            [ids],
            strategy or self.strategy(),
            max_new_tokens=self._cap(max_new_tokens),
            newest_only=True,
        )
        with torch.inference_mode():
            for moment in steps:
                for token in moment.hypotheses.last.tolist():
                    yield self.framing.addition(list(window), token)
                    window.append(token)

    def strategy(
        self,
        *,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        num_return_sequences: int = 1,
        seed: int | None = None,
    ) -> Strategy:
        """Greedy search or sampling; what is not given comes from generation_config.json."""
        from throughtime.search import Greedy, Sampling

        chosen = self.generation
        end = self.framing.end_id
        if greedy if greedy is not None else not chosen.get("do_sample", True):
            if num_return_sequences > 1:
                raise InputError("num_return_sequences", "is for drawn texts; greedy search finds one")
            return Greedy(end)
        return Sampling(
            end,
            temperature=temperature if temperature is not None else chosen.get("temperature", 1.0),
            top_k=top_k if top_k is not None else chosen.get("top_k"),
            top_p=top_p if top_p is not None else chosen.get("top_p"),
            num_return_sequences=num_return_sequences,
            seed=seed,
        )

    def _cap(self, max_new_tokens: int | None) -> int:
        return (
            max_new_tokens if max_new_tokens is not None else int(self.generation.get("max_new_tokens", 100))
        )


def report_likelihood(found: Likelihood, signature: str) -> Evaluation:
    """A likelihood as the result of an evaluation."""
    known = 1 - found.unknown / found.tokens
    text = (
        f"perplexity {found.perplexity:.2f}, {found.bits_per_token:.3f} bits per token, "
        f"{found.bits_per_character:.3f} bits per character\n"
        f"over {found.tokens:,} tokens, {known:.1%} of them known to the vocabulary"
    )
    return Evaluation(found.values(), signature, text)
