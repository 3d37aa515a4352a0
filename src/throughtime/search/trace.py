"""Traces of a search: the tree of its tokens, which were kept, cut or ended a result; and its attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from throughtime.runtime.search import check_beam
from throughtime.search.beam import normalise_score
from throughtime.search.generate import Finished, Moment

Status = Literal["kept", "cut", "ended"]


@dataclass(frozen=True)
class TraceNode:
    """One token that a search considered."""

    sentence: int
    step: int  # 1 for the first token
    parent: int | None  # into the trace's nodes; None for a first token
    token: int
    log_prob: float  # of all tokens up to here
    score: float
    status: Status


class Trace:
    """Records a search: `generate(..., watch=trace)`, then `trace.nodes`.

    A token was kept, ended a result, or was cut; of the cut ones, the `cut` likeliest of each sentence and
    step are recorded. A result has the strategy's score, other nodes log P / L^`length_penalty`. Hypotheses
    that stop at the maximum length are kept nodes without children.
    """

    def __init__(self, end_id: int | None, *, cut: int = 3, length_penalty: float = 0.0) -> None:
        check_beam(1, length_penalty, 1)
        self.end_id, self.cut, self.length_penalty = end_id, cut, length_penalty
        self.nodes: list[TraceNode] = []
        self._of_row: list[int | None] = []  # the node of each row that continues

    def __call__(self, moment: Moment) -> None:
        """Record one step."""
        if moment.before.length == 0:
            self._of_row = [None] * moment.before.rows
        left = moment.before.log_prob[:, None] + moment.log_probs  # [rows before, V], not recorded yet
        self._record_ended(moment, left)
        going_on = moment.hypotheses
        of_row: list[int | None] = [None] * going_on.rows
        real = (going_on.log_prob > -torch.inf).nonzero().flatten()  # a beam may fill up with impossible rows
        for row in real.tolist():
            came_from, token = int(moment.rows[row]), int(going_on.last[row])
            score = float(normalise_score(going_on.log_prob[row], going_on.length, self.length_penalty))
            of_row[row] = self._add(moment, came_from, token, float(going_on.log_prob[row]), score, "kept")
            left[came_from, token] = -torch.inf
        self._cut(moment, left)
        self._of_row = of_row

    def _record_ended(self, moment: Moment, left: Tensor) -> None:
        step = moment.before.length + 1
        for before, after in zip(moment.before.ended, moment.hypotheses.ended, strict=True):
            for result in after[len(before) :]:
                if len(result.path) != step:
                    continue  # nothing could follow it, and its last token was recorded before
                token = self.end_id if result.ended else result.tokens[-1]
                assert token is not None, "a result that ended has an end token"
                self._add(
                    moment,
                    result.path[-1],
                    token,
                    result.log_prob,
                    result.score,
                    "ended" if result.ended else "kept",
                )
                left[result.path[-1], token] = -torch.inf

    def _cut(self, moment: Moment, left: Tensor) -> None:
        """Record the likeliest tokens of each sentence that were not taken."""
        length, vocabulary = moment.before.length + 1, left.shape[1]
        rows_each = torch.unique_consecutive(moment.before.sentence, return_counts=True)[1]
        first = 0
        for rows in rows_each.tolist():
            candidates = left[first : first + rows].flatten()
            values, positions = candidates.topk(min(self.cut, len(candidates)))
            scores = normalise_score(values, length, self.length_penalty)
            for log_prob, position, score in zip(
                values.tolist(), positions.tolist(), scores.tolist(), strict=True
            ):
                if log_prob > -torch.inf:
                    row, token = divmod(position, vocabulary)
                    self._add(moment, first + row, token, log_prob, score, "cut")
            first += rows

    def _add(
        self, moment: Moment, row: int, token: int, log_prob: float, score: float, status: Status
    ) -> int:
        sentence, step = int(moment.before.sentence[row]), moment.before.length + 1
        self.nodes.append(TraceNode(sentence, step, self._of_row[row], token, log_prob, score, status))
        return len(self.nodes) - 1


class AttentionTrace:
    """Keeps the attention of each step of a search, [rows, source], and its scores before the softmax.

    `latest` are the scores that the models have computed in a step.
    """

    def __init__(self, latest: list[Tensor], watch: Callable[[Moment], None] | None) -> None:
        self._latest, self._watch = latest, watch
        self._weights: list[Tensor] = []
        self._scores: list[Tensor] = []

    def __call__(self, moment: Moment) -> None:
        """Add a step."""
        if self._watch is not None:
            self._watch(moment)
        if "attention" in moment.extras:
            self._weights.append(moment.extras["attention"].float())
            if len(self._latest) == 1:  # the attention of several models is a mean, and has no scores
                self._scores.append(self._latest[0].float())
            self._latest.clear()

    def follow(self, results: Sequence[Finished]) -> tuple[list[Tensor], list[Tensor]]:
        """Follow results back through their rows: the attention and the scores of each, [tokens, source]."""
        scores = self._scores if len(self._scores) == len(self._weights) else []
        return _follow_paths(results, self._weights), _follow_paths(results, scores)


def _follow_paths(results: Sequence[Finished], steps: Sequence[Tensor]) -> list[Tensor]:
    if not steps:
        return []
    return [torch.stack([steps[t][row] for t, row in enumerate(result.path)]) for result in results]
