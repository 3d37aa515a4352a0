"""How exported models write texts, token by token: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, check_whole, suggest
from throughtime.results import Progress
from throughtime.runtime.checks import Size
from throughtime.runtime.draws import Draws
from throughtime.runtime.keywords import PrefixRules, WritingOptions, split_options
from throughtime.runtime.search import MAX_TEXTS, ArraySampling, Finished, choose_search

Array = NDArray[Any]
Prompt = TypeVar("Prompt")
Step = Callable[[Array | None], Array]
"""Called with the token that each row took [rows], None before the first; returns ln P [rows, V]."""


class GenerationSettings(TypedDict):
    """How an exported model writes by default."""

    do_sample: NotRequired[bool]
    max_new_tokens: NotRequired[Annotated[int, 1, 1_000_000]]
    temperature: NotRequired[float | None]
    top_k: NotRequired[Size | None]
    top_p: NotRequired[float | None]


class Writing(NamedTuple):
    """How to write: the maximum number of tokens, the number of texts, their seed; None draws nothing."""

    cap: int
    each: int
    seed: int | None
    sampling: ArraySampling | None

    @classmethod
    def choose(
        cls, defaults: Mapping[str, Any], options: Mapping[str, Any], **needs_training: Any
    ) -> Writing:
        """Check the keywords of a runner; constraints and others that need training must be empty."""
        rules, options = split_options(options, PrefixRules)
        for keyword, value in {**rules, **needs_training}.items():
            if value:
                raise InputError(
                    keyword, "needs the trained model; an export has greedy search and sampling only"
                )
        cap = options.pop("max_new_tokens", None)
        name, chosen = choose_search(defaults, **options)
        if name not in ("greedy", "sampling"):
            raise InputError(
                "num_beams" if options.get("num_beams") is not None else "search",
                f"asks for {name} search, which needs the trained model; an export has greedy search and "
                "sampling only",
            )
        cap = int(defaults.get("max_new_tokens", 100)) if cap is None else cap
        each, seed = chosen.pop("num_return_sequences", 1), chosen.pop("seed", None)
        check_whole("max_new_tokens", cap)
        check_whole("num_return_sequences", each, 1, MAX_TEXTS)
        for keyword in [keyword for keyword in chosen if keyword not in ("temperature", "top_k", "top_p")]:
            takes = "is not an option of sampling, which takes temperature, top_k, top_p"
            raise InputError(keyword, takes + suggest(keyword, WritingOptions.__annotations__))
        return cls(cap, each, seed, ArraySampling(**chosen) if name == "sampling" else None)

    def write_all(
        self,
        prompts: Sequence[Prompt],
        begin: Callable[[Prompt], Step],
        end_id: int | None,
        progress: Progress | None = None,
    ) -> list[list[Finished]]:
        """Write the texts of each prompt; `begin` reads one and returns the step that continues it."""
        results: list[list[Finished]] = []
        for number, prompt in enumerate(prompts):
            results.append(self.write(begin(prompt), number, end_id))
            if progress is not None:
                progress(len(results), len(prompts))
        return results

    def write(self, step: Step, number: int, end_id: int | None) -> list[Finished]:
        """The texts of the prompt of this number, the most likely first; `step` runs all rows at once."""
        rows = self.each
        points = iter(Draws(self.seed, np.full(rows, number), np.arange(rows)))
        written: list[list[int]] = [[] for _ in range(rows)]
        totals, over, last = np.zeros(rows), np.zeros(rows, dtype=bool), None
        for _ in range(self.cap):
            log_probs = step(last)
            if self.sampling is None:
                last = log_probs.argmax(axis=1)
            else:
                last = self.sampling.choose(log_probs, next(points))
            totals += np.where(over, 0.0, log_probs[np.arange(rows), last].astype(np.float64))
            for row in np.flatnonzero(~over & (last != (-1 if end_id is None else end_id))):
                written[row].append(int(last[row]))
            over |= last == end_id if end_id is not None else False
            if over.all():
                break
        results = [
            Finished(tuple(own), float(total), float(total), bool(ended))
            for own, total, ended in zip(written, totals, over, strict=True)
        ]
        return sorted(results, key=lambda one: -one.score)
