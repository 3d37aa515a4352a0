"""The likelihood of a text: cross-entropy, perplexity, bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass


@dataclass(frozen=True)
class Likelihood:
    """The sum of the surprisals of a text and the counts to divide it by. Sums can be added; means cannot.

    >>> short, long = Likelihood(nats=2.0, tokens=1), Likelihood(nats=2.0, tokens=3)
    >>> (short + long).cross_entropy                # not the mean of 2.0 and 0.67
    1.0
    >>> round(Likelihood.of([math.log(1 / 28)] * 100).perplexity, 9)         # uniform over 28 tokens
    28.0
    """

    nats: float = 0.0
    tokens: int = 0
    characters: int = 0
    unknown: int = 0
    """Number of tokens that are not in the vocabulary."""

    @classmethod
    def of(cls, log_probs: Iterable[float], characters: int = 0) -> Likelihood:
        """Sum the ln P of tokens exactly, so that their order does not matter."""
        values = list(log_probs)
        nats = math.inf if -math.inf in values else -math.fsum(values)
        return cls(nats, len(values), characters)

    def __add__(self, other: Likelihood) -> Likelihood:
        """Both texts together."""
        sums = (mine + its for mine, its in zip(astuple(self), astuple(other), strict=True))
        return Likelihood(*sums)

    @property
    def cross_entropy(self) -> float:
        """Mean surprisal of a token, in nats."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """exp(cross-entropy): the geometric mean of the number of choices; 1 at best, infinite at worst."""
        try:
            return math.exp(self.cross_entropy)
        except OverflowError:
            return math.inf

    @property
    def bits_per_token(self) -> float:
        """Mean surprisal of a token, in bits."""
        return self.cross_entropy / math.log(2)

    @property
    def bits_per_character(self) -> float:
        """Mean surprisal of a character, in bits, which can be compared between tokenizers."""
        return self.nats / math.log(2) / self.characters if self.characters else math.nan

    def values(self) -> dict[str, float | int]:
        """All measures and counts by name."""
        measures = ("perplexity", "cross_entropy", "bits_per_token", "bits_per_character")
        return {**{name: getattr(self, name) for name in measures}, **asdict(self)}
