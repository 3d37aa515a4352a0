"""Beam search and sampling over arrays, and the limits of all searches.

`ArrayBeam` finds the same hypotheses, scores and order of equals as `throughtime.search.beam.Beam`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import DamagedModelError, InputError, check_number, check_whole, suggest
from throughtime.runtime.keywords import WritingOptions

Array = NDArray[Any]

MAX_BEAMS, MAX_TEXTS = 1_000, 10_000
"""Maximum number of hypotheses of a search that is chosen by name, and of texts drawn for one prompt."""
MAX_LENGTH_PENALTY = 10.0
"""Far above any useful value; length^penalty must stay finite."""
COLDEST = 1e-30
"""The lowest temperature that is used as it is. Below it log-probabilities would overflow, and long before it
only the likeliest token is left."""
LENGTH_STEP = 16


@dataclass(frozen=True)
class Finished:
    """One sequence that a search found."""

    tokens: tuple[int, ...]  # without the end token
    log_prob: float  # ln P of the tokens, including the end token if there is one
    score: float  # what the strategy ranks by
    ended: bool  # by the end token; False if it was cut at the maximum length
    path: tuple[int, ...] = ()  # the row that produced each token, to look up its extras


class Likeliest(NamedTuple):
    """The likeliest next tokens of each row, and ln P of each: [rows, k], best first."""

    log_probs: Array
    ids: Array


StepFunction = Callable[[Array, Array, Array, int], Likeliest]
"""Called with the rows that continue [rows], the token that each reads [rows], the sentences that are left,
and the number of tokens to return."""


def check_beam(num_beams: int, length_penalty: float, num_return_sequences: int) -> None:
    """Refuse options of beam search that are out of range.

    >>> check_beam(5, 300, 1)
    Traceback (most recent call last):
    throughtime.errors.InputError: length_penalty: is 300, expected a number from 0 to 10
    """
    check_whole("num_return_sequences", num_return_sequences)
    check_whole("num_beams", num_beams)
    check_number("length_penalty", length_penalty, 0, MAX_LENGTH_PENALTY)
    if num_return_sequences > num_beams:
        problem = f"is {num_return_sequences}, expected 1 to {num_beams}, the number of beams"
        raise InputError("num_return_sequences", problem)


@dataclass
class ArrayBeam:
    """The `num_beams` best continuations of each sentence continue; those that took the end token leave.

    The score is log P / L^`length_penalty`. A sentence is finished when no row can beat its
    `num_return_sequences` best results. Tokens in `barred` are never chosen.
    """

    end_id: int
    num_beams: int = 5
    length_penalty: float = 0.75
    num_return_sequences: int = 1
    max_length: int = 100
    barred: Sequence[int] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Check the options."""
        check_beam(self.num_beams, self.length_penalty, self.num_return_sequences)

    def search(self, step: StepFunction, sentences: int, begin_id: int) -> list[list[Finished]]:
        """The results of each sentence, best first.

        All sentences have the same number of adjacent rows; rows of probability 0 fill up shorter ones.
        """
        found: list[list[Finished]] = [[] for _ in range(sentences)]
        alive = np.arange(sentences)
        rank = np.zeros((sentences, 1))  # ln P of each row; -inf: no row
        best = np.full((sentences, self.num_return_sequences), -np.inf)
        tokens = np.zeros((sentences, self.max_length), dtype=np.int64)
        rows, staying, last = np.arange(sentences), np.arange(sentences), np.full(sentences, begin_id)
        for length in range(1, self.max_length + 1):
            likeliest = step(rows, last, staying, self.num_beams + len(self.barred))
            if np.isnan(likeliest.log_probs).any():
                raise DamagedModelError
            parent, token, total = self._candidates(likeliest, rank)  # [S, num_beams]
            possible = total > -np.inf
            over = possible & (token == self.end_id)
            if over.any():
                score = total / length**self.length_penalty
                ending = np.concatenate([best, np.where(over, score, -np.inf)], axis=1)
                best = -np.sort(-ending, axis=1)[:, : self.num_return_sequences]
                for sentence, place in np.argwhere(over & (score >= best[:, -1:])):
                    prefix = tokens[parent[sentence, place], : length - 1]
                    log_prob, own = float(total[sentence, place]), float(score[sentence, place])
                    found[alive[sentence]].append(Finished(tuple(prefix.tolist()), log_prob, own, True))
                possible &= ~over
            going_on = possible & (total / self.max_length**self.length_penalty > best[:, -1:])
            staying = np.flatnonzero(going_on.any(axis=1))
            if not len(staying):
                break
            rows, last, rank = _pack(parent, token, total, going_on, staying)
            tokens = tokens[rows]
            tokens[:, length - 1] = last
            alive, best = alive[staying], best[staying]
        else:
            for row, (sentence, place) in enumerate(np.ndindex(*rank.shape)):
                if rank[sentence, place] > -np.inf:
                    cut = float(rank[sentence, place])
                    score = cut / self.max_length**self.length_penalty
                    found[alive[sentence]].append(Finished(tuple(tokens[row].tolist()), cut, score, False))
        return [sorted(own, key=lambda one: -one.score)[: self.num_return_sequences] for own in found]

    def _candidates(self, likeliest: Likeliest, rank: Array) -> tuple[Array, Array, Array]:
        """The best continuations of each sentence: the row, the token, the total ln P. [S, num_beams]"""
        gained, ids = likeliest  # among equals the smallest id comes first, as in the graph's TopK
        for barred in self.barred:
            gained = np.where(ids == barred, -np.inf, gained)
        sentences, each = len(rank), gained.shape[1]
        total = (rank.reshape(-1, 1) + gained.astype(np.float64)).reshape(sentences, -1)
        chosen = np.argsort(-total, axis=1, kind="stable")[:, : self.num_beams]
        parent = chosen // each + np.arange(0, rank.size, rank.shape[1])[:, None]
        token, total = _choose(chosen, ids.reshape(sentences, -1), total)
        return parent, token, total


def _pack(
    parent: Array, token: Array, total: Array, going_on: Array, staying: Array
) -> tuple[Array, Array, Array]:
    """The rows that continue, equally many per sentence: parents [rows], tokens [rows] and rank [S, n]."""
    if going_on.all():
        return parent.ravel(), token.ravel(), total
    if len(staying) < len(going_on):
        going_on, parent, token, total = (each[staying] for each in (going_on, parent, token, total))
    most = int(going_on.sum(axis=1).max())
    # Rows that continue come first, in their order.
    place = np.argsort(~going_on, axis=1, kind="stable")[:, :most]
    parent, token, total, real = _choose(place, parent, token, total, going_on)
    return parent.ravel(), token.ravel(), np.where(real, total, -np.inf)


def _choose(places: Array, *tables: Array) -> list[Array]:
    """The values of tables [S, n] at places [S, m]. numpy's take_along_axis is three times as slow here."""
    rows = np.arange(len(places))[:, None]
    return [table[rows, places] for table in tables]


class ArraySampling:
    """Draw from P^(1/temperature), from the `top_k` likeliest tokens and the smallest set of mass `top_p`.

    >>> log_probs = np.log([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]])
    >>> ArraySampling(top_k=2).choose(log_probs, np.array([0.1, 0.9])).tolist()
    [0, 2]
    """

    def __init__(
        self, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> None:
        check_sampling(temperature, top_k, top_p)
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p

    def choose(self, log_probs: Array, points: Array) -> Array:
        """The token of each row [rows] at which its cumulative probability exceeds its point in [0, 1)."""
        reached = self.probabilities(log_probs).cumsum(axis=1)
        below: Array = (reached <= points[:, None] * reached[:, -1:]).sum(axis=1)
        return below.clip(max=reached.shape[1] - 1)

    def probabilities(self, log_probs: Array) -> Array:
        """The distribution that is drawn from, [rows, V]."""
        scaled = log_probs.astype(np.float64) / max(self.temperature, COLDEST)
        if self.top_k is not None and self.top_k < scaled.shape[1]:
            least = np.partition(scaled, -self.top_k, axis=1)[:, -self.top_k, None]
            scaled = np.where(scaled < least, -np.inf, scaled)
        p = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-p, axis=1, kind="stable")
            falling = np.take_along_axis(p, order, axis=1)
            beyond = falling.cumsum(axis=1) - falling >= self.top_p  # the tokens before it have enough mass
            np.put_along_axis(p, order, np.where(beyond, 0.0, falling), axis=1)
        found: Array = p
        return found


def check_sampling(
    temperature: float, top_k: int | None, top_p: float | None, num_return_sequences: int = 1
) -> None:
    """Refuse options of sampling that are out of range."""
    if temperature == 0:
        raise InputError("temperature", f"is {temperature}, expected a number above 0; or use greedy search")
    check_number("temperature", temperature, above=True)
    if top_k is not None:
        check_whole("top_k", top_k)
    if top_p is not None:
        check_number("top_p", top_p, 0, 1, above=True)
    check_whole("num_return_sequences", num_return_sequences, 1, MAX_TEXTS)


def choose_search(
    defaults: Mapping[str, Any],
    *,
    search: str | None = None,
    greedy: bool | None = None,
    num_beams: int | None = None,
    num_return_sequences: int | None = None,
    **options: Any,
) -> tuple[str, dict[str, Any]]:
    """The name of a search strategy and its options, without those that are None.

    Texts are sampled unless `search` names a strategy, `greedy` asks for the likeliest token at each step or
    `num_beams` for beam search; `defaults` come from generation_config.json. Greedy search has no options.

    >>> choose_search({"temperature": 0.8}, top_k=5, seed=1)
    ('sampling', {'temperature': 0.8, 'top_k': 5, 'seed': 1})
    >>> choose_search({}, num_beams=4, num_return_sequences=2)
    ('beam', {'num_beams': 4, 'num_return_sequences': 2})
    """
    if greedy and (search or num_beams is not None):
        other = "search" if search else "num_beams"
        raise InputError("greedy", f"cannot be given together with {other}; leave one of them out")
    if search is None:
        drawn = defaults.get("do_sample", True) if greedy is None else not greedy
        search = "beam" if num_beams is not None else "sampling" if drawn else "greedy"
    if search == "greedy":
        if (num_return_sequences or 1) > 1:
            raise InputError(
                "num_return_sequences", f"is {num_return_sequences}, but greedy search finds only 1"
            )
        for name, value in {"num_beams": num_beams, **options}.items():
            if value is not None and (name, value) != ("temperature", 0):
                near = suggest(name, WritingOptions.__annotations__.keys() - {name})
                raise InputError(name, f"is not an option of greedy search, which takes none{near}")
        return search, {}
    own = {"num_beams": num_beams, **options, "num_return_sequences": num_return_sequences}
    known = {name: defaults.get(name) for name in ("temperature", "top_k", "top_p") if search == "sampling"}
    found = known | {name: value for name, value in own.items() if value is not None}
    return search, {name: value for name, value in found.items() if value is not None}


def batches_by_length(
    prompts: Sequence[Sequence[int]], max_length: int | None = None, most_sentences: int = 128
) -> list[tuple[int, list[int]]]:
    """Batches of prompt numbers, short prompts first, each with the maximum number of tokens of its results.

    This maximum depends only on a prompt's own length, so that no result depends on other prompts.

    >>> batches_by_length([[5] * 40, [5] * 3, [5] * 7])
    [(48, [1, 2]), (112, [0])]
    """
    if max_length is not None:
        check_whole("max_length", max_length)
    found: list[tuple[int, list[int]]] = []
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number])):
        steps = -(-len(prompts[number]) // LENGTH_STEP)
        most = max_length or LENGTH_STEP * (2 * steps + 1)
        if not found or found[-1][0] != most or len(found[-1][1]) == most_sentences:
            found.append((most, []))
        found[-1][1].append(number)
    return found
