"""What all language models do, recurrent or counted: they score texts and write them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from throughtime.data.seen import Hashes, hash_texts
from throughtime.errors import InputError
from throughtime.results import Evaluation, Scored
from throughtime.runtime.keywords import WritingRules
from throughtime.tasks.base import Progress
from throughtime.tasks.language import ContinuationOptions
from throughtime.tasks.language.runner import LanguageWriter
from throughtime.tasks.text_config import WritingDefaults
from throughtime.tasks.texts import TextWriter, WritePrompts
from throughtime.text.texts import check_text

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.metrics.measures import Likelihood
    from throughtime.search.generate import Strategy
    from throughtime.search.step_model import ScoringModel
    from throughtime.text.framing import Framing


TEXTS_PER_BATCH = 4_096


class TokenScores(NamedTuple):
    """The ids of tokens in the order in which a model reads them, and ln P of each."""

    ids: npt.NDArray[np.int64]
    log_probs: npt.NDArray[np.float64]


class LanguageModel(TextWriter, LanguageWriter):
    """A model that scores and writes texts; its assets are its framing."""

    generation_defaults = {"do_sample": True, "max_new_tokens": 100}  # noqa: RUF012 - never changed
    generation_type = WritingDefaults
    reports_dropped = True
    model: ScoringModel

    @property
    def framing(self) -> Framing:
        """How texts become ids."""
        framing: Framing = self.assets
        return framing

    @property
    def has_data(self) -> bool:
        """Whether the model knows the data that it was trained on."""
        return True

    @property
    def end_id(self) -> int | None:
        """The token that ends a text; None for a model of a stream."""
        return self.framing.end_id

    def score(self, texts: str | Sequence[str], *, prompt: str = "") -> list[Scored]:
        """Score each text: the log-probability of each of its tokens.

        With a `prompt`, each text is scored as what follows it: the model reads the prompt first, and its
        tokens are not counted. A model of a stream has no token for the end of a text, so an empty text has
        no tokens to score.
        """
        return self.framing.score(texts, prompt, self.model.log_probs)

    def hash_split(self, dataset: Dataset, split: str) -> Iterator[Hashes]:
        """Yield the hashes of the lines of a split, many at a time."""
        return hash_texts(line for text in dataset.texts(split) for line in text.splitlines())

    def likelihood(self, dataset: Dataset, split: str) -> Likelihood:
        """The likelihood of a split; a stream is scored as one sequence."""
        from throughtime.metrics.measures import Likelihood

        total, unk, given = Likelihood(), self.codec.vocabulary.unk_id, self.framing.num_given
        for texts, sequences in self._read_batches(dataset, split):
            scores = np.concatenate([log_probs[given:] for log_probs in self.model.log_probs(sequences)])
            total += Likelihood.of(scores.tolist(), self.framing.characters(texts))
            if unk is not None:
                total += Likelihood(unknown=sum(ids.count(unk) for ids in sequences))
        if not total.tokens:
            raise no_tokens(dataset, split)
        return total

    def score_split(
        self, dataset: Dataset, split: str, *, limit: int | None = None, progress: Progress | None = None
    ) -> TokenScores:
        """Score each token of a split as `evaluate` reads it; with `limit`, only this number of first tokens.

        Models of the same texts, direction and vocabulary score the same tokens in the same order.
        """
        pieces, count = [TokenScores(np.zeros(0, dtype=np.int64), np.zeros(0))], 0
        for _, sequences in self._read_batches(dataset, split):
            if limit is not None and count >= limit:
                break
            given = self.framing.num_given
            for ids, log_probs in zip(sequences, self.model.log_probs(sequences), strict=True):
                pieces.append(TokenScores(np.asarray(ids[given:], dtype=np.int64), log_probs[given:]))
                count += len(ids) - given
        if not count:
            raise no_tokens(dataset, split)
        return TokenScores(*(np.concatenate(parts)[:limit] for parts in zip(*pieces, strict=True)))

    def _read_batches(self, dataset: Dataset, split: str) -> Iterator[tuple[list[str], list[list[int]]]]:
        """Some texts of a split and their sequences at a time; of a stream, all."""
        texts = iter(dataset.texts(split))
        if self.framing.marked and self.framing.backward:  # the last line comes first, as in a stream
            texts = reversed([*texts])
        while batch := list(islice(texts, TEXTS_PER_BATCH) if self.framing.marked else texts):
            yield batch, self.framing.sequences(batch)

    def shape_example(self, text: str) -> str:
        """Return the first half of a text, which the model continues."""
        words = text.split(" ")
        return " ".join(words[: max(1, len(words) // 2)]) if len(words) > 1 else text[: len(text) // 2]

    def signature(self, dataset: Dataset) -> str:
        """How text is read, for the signature of an evaluation."""
        codec = self.codec
        return f"layout:{dataset.layout}|tokens:{codec.tokenizer.name}|vocabulary:{codec.hash[:12]}"

    def _choose_writing(self, options: ContinuationOptions, strategy: Strategy | None) -> WritePrompts:
        ruled = next((name for name in ("forbid", "require") if options.get(name)), None)
        if options.get("require") and self.end_id is None:
            raise InputError("require", "needs a model of lines; this one writes a stream without an end")
        if ruled is not None and self.framing.backward:
            raise InputError(ruled, "needs a model that writes left to right")
        return self.choose_writing(options, WritingRules, strategy)

    def stream(
        self, prompt: str = "", *, max_new_tokens: int | None = None, strategy: Strategy | None = None
    ) -> Iterator[str]:
        """Yield the prompt and then its continuation, token by token; memory does not grow."""
        import torch

        from throughtime.search.generate import moments
        from throughtime.text.codec import WINDOW

        if self.framing.backward:
            raise InputError(
                "prompt", "cannot be streamed by a right-to-left model, whose first word comes last"
            )
        ids = self.framing.ids(check_text(prompt, "prompt"), end=False)
        window = deque(ids, maxlen=WINDOW)
        yield self.framing.text(ids)
        length = self._length(max_new_tokens)
        steps = moments(
            self.model, [ids], strategy or self.strategy(), max_new_tokens=length, newest_only=True
        )
        with torch.inference_mode():
            for moment in steps:
                for token in moment.hypotheses.last.tolist():
                    yield self.framing.addition(list(window), token)
                    window.append(token)


def no_tokens(dataset: Dataset, split: str) -> InputError:
    """The error of a split without text."""
    return InputError(f"{dataset.name}, split {split}", "holds no token to score")


def report_likelihood(likelihood: Likelihood, signature: str) -> Evaluation:
    """Turn a likelihood into the result of an evaluation."""
    known = 1 - likelihood.unknown / likelihood.tokens
    text = (
        f"perplexity {likelihood.perplexity:.2f}, {likelihood.bits_per_token:.3f} bits per token, "
        f"{likelihood.bits_per_character:.3f} bits per character\n"
        f"over {likelihood.tokens:,} tokens, {known:.1%} of them known to the vocabulary"
    )
    return Evaluation(likelihood.values(), signature, text)
