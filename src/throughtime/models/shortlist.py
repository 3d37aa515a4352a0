"""A step model over a few candidates for each sentence, in place of the whole target vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from throughtime.cells.base import State
from throughtime.models.bf16_search import linear_in_few_shapes
from throughtime.models.heads import SoftmaxHead, log_softmax
from throughtime.models.seq2seq import DecodingModel
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import Finished, Memory, Step
from throughtime.search.step_model import StepModel

CANDIDATES_STEP = 64
"""Candidates of sentences together are filled up to a multiple of this, so that products have few shapes."""
SENTENCES_TOGETHER = 8
"""Sentences whose candidates share a product: more make it wider, fewer make it slower per candidate."""

Candidates = Sequence[NDArray[np.int64]]
"""The target tokens that each sentence allows, rising."""


def output_device(model: StepModel) -> torch.device | None:
    """Return the device of the output layer; None if it cannot be computed for some tokens alone."""
    if isinstance(model, Ensemble):
        devices = {output_device(member) for member in model.models}
        return devices.pop() if len(devices) == 1 else None
    head = getattr(model, "head", None)
    return head.weight.device if isinstance(head, SoftmaxHead) and hasattr(model, "decode") else None


def restrict_model(model: StepModel, candidates: Candidates, *, renumber: bool) -> StepModel:
    """Return the model with only these candidates for each prompt that it will start with."""
    if isinstance(model, Ensemble):
        members = [restrict_model(member, candidates, renumber=renumber) for member in model.models]
        return Ensemble(members, model.weights)
    return ShortlistModel(cast(DecodingModel, model), candidates, renumber=renumber)


def to_vocabulary(results: list[list[Finished]], candidates: Candidates) -> list[list[Finished]]:
    """Return the results of a search over renumbered tokens, in the ids of the vocabulary."""
    return [
        [replace(result, tokens=tuple(ids[list(result.tokens)].tolist())) for result in best]
        for ids, best in zip(candidates, results, strict=True)
    ]


class ShortlistModel(StepModel):
    """A model whose output layer has only the candidates of each sentence; other tokens have probability 0.

    With `renumber`, the tokens of a sentence are the places in its list of candidates, so that search too
    sees a small vocabulary; the special tokens must have the same number in all lists. A sentence never
    depends on the candidates of others: products are over the candidates of some sentences together, but
    each row takes only its own into the softmax.

    >>> from throughtime.tasks.translate.network import build
    >>> model = build("attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16).eval()
    >>> few = ShortlistModel(model, [np.array([0, 1, 2, 17, 39])])
    >>> step = few.step(*few.start([[5, 6, 7]]))
    >>> step.log_probs.shape, int((step.log_probs > -torch.inf).sum())
    (torch.Size([1, 40]), 5)
    """

    def __init__(self, model: DecodingModel, candidates: Candidates, *, renumber: bool = False) -> None:
        self.model, self.candidates, self.renumber = model, candidates, renumber
        self._weights: list[Tensor] = []  # for each group of sentences, [candidates of the group, H]

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, State, Memory]:
        """Read the prompts, and collect the output weights of their candidates."""
        last, state, memory = self.model.start(prompts)
        head = self._head
        device, width = last.device, max(map(len, self.candidates))
        ids = np.zeros((len(prompts), width), dtype=np.int64)
        column, missing = np.zeros_like(ids), np.ones(ids.shape, dtype=bool)
        self._weights = []
        for first in range(0, len(prompts), SENTENCES_TOGETHER):
            group = self.candidates[first : first + SENTENCES_TOGETHER]
            union = np.unique(np.concatenate(group))
            filled = np.resize(union, -(-len(union) // CANDIDATES_STEP) * CANDIDATES_STEP)
            self._weights.append(head.weight.detach()[torch.from_numpy(filled).to(device)])
            for sentence, allowed in enumerate(group, first):
                ids[sentence, : len(allowed)] = allowed
                column[sentence, : len(allowed)] = np.searchsorted(union, allowed)
                missing[sentence, : len(allowed)] = False
        tokens, columns = torch.from_numpy(ids).to(device), torch.from_numpy(column).to(device)
        # The bias of each candidate; -inf bars the places that fill up shorter lists.
        bias = torch.zeros(ids.shape, device=device) if head.bias is None else head.bias.detach()[tokens]
        bias = bias.masked_fill(torch.from_numpy(missing).to(device), -torch.inf)
        group_of = torch.arange(len(prompts), device=device) // SENTENCES_TOGETHER
        kept = (tokens, columns, bias, group_of, *memory.kept)
        return last, state, replace(memory, kept=kept)

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return ln P of the candidates, or of all tokens."""
        tokens, columns, bias, group_of, *kept = memory.kept
        owner = memory.owner
        if self.renumber:
            last = tokens[owner, last]
        outputs, reached, extras = self.model.decode(last, state, replace(memory, kept=tuple(kept)))
        scores = self._score(outputs, columns[owner], group_of[owner])
        log_probs = log_softmax(scores + bias[owner])
        if not self.renumber:
            whole = log_probs.new_full((len(owner), len(self._head.weight)), -torch.inf)
            # Places that fill up a list have the token 0, which may be a candidate, too.
            log_probs = whole.scatter_reduce_(1, tokens[owner], log_probs, "amax")
        return Step(log_probs, reached, extras)

    @property
    def _head(self) -> SoftmaxHead:
        head = self.model.head
        assert isinstance(head, SoftmaxHead)
        return head

    def _score(self, outputs: Tensor, columns: Tensor, groups: Tensor) -> Tensor:
        """Return the products of each row with the weights of its candidates, [rows, candidates]."""
        dtype = self._head.weight.dtype
        product = linear_in_few_shapes if dtype == torch.bfloat16 and outputs.device.type == "cpu" else linear
        each = torch.bincount(groups, minlength=len(self._weights)).tolist()
        groups_of_rows = zip(self._weights, outputs.to(dtype).split(each), columns.split(each), strict=True)
        return torch.cat(
            [
                product(hidden, weights).gather(1, allowed)
                for weights, hidden, allowed in groups_of_rows
                if len(hidden)
            ]
        )
