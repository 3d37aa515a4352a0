"""What stands between a prompt and a suffix, by a model that fills blanks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fastapi import Request

from throughtime.serve.batching import Left
from throughtime.serve.models import Served
from throughtime.serve.refusals import RefusalError
from throughtime.serve.service import service_of
from throughtime.text.blanks import BLANK

if TYPE_CHECKING:
    from throughtime.results import Filling

MOST_BLANKS = 4
"""A fill-in model puts one token in each blank; so many blanks are tried at most."""


async def infilled(
    request: Request, named: Served, prompts: list[str | list[int]], suffix: str, most: int, choices: int
) -> dict[str, Any]:
    """Choices and usage of a completion with a suffix.

    Gaps of one token, of two and so on are filled; the best is the one whose tokens are likeliest on average.
    """
    service = service_of(request)
    fillers = [named] if named.task == "fill" else service.models.of("fill")
    if not fillers:
        raise RefusalError(
            400, "suffix needs a model that fills blanks, and none is loaded; leave it out", param="suffix"
        )
    if most < 1:
        raise RefusalError(400, "max_tokens is 0, so nothing can stand before the suffix", param="max_tokens")
    filler = fillers[0]
    gaps = range(1, min(most, MOST_BLANKS) + 1)
    asked = [(_text(prompt), suffix, blanks) for prompt in prompts for blanks in gaps]

    def compute(items: list[tuple[str, str, int]], left: Left) -> list[list[Filling]]:
        found: list[list[Filling]] = filler.model.fill_all([with_blanks(*item) for item in items], k=choices)
        return found

    found = await service.computed(request, filler, ("infill", choices), compute, asked)
    told: list[dict[str, Any]] = []
    written = read = 0
    for number, prompt in enumerate(map(_text, prompts)):
        own = [one for fillings in found[number * len(gaps) : (number + 1) * len(gaps)] for one in fillings]
        for one in sorted(own, key=_likeness)[:choices]:
            text = between(prompt, suffix, one.text)
            told.append({"index": len(told), "text": text, "logprobs": None, "finish_reason": "stop"})
            written += len(one.tokens)
        read += len(filler.model.codec.encode(prompt)) + len(filler.model.codec.encode(suffix))
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    texts = [f"{_text(prompt)} {suffix}" for prompt in prompts]
    return {"choices": told, "usage": usage} | await service.warnings(filler, texts)


def with_blanks(prompt: str, suffix: str, blanks: int) -> str:
    """The text with so many blanks between prompt and suffix.

    >>> with_blanks("I am", ".", 1), with_blanks("I ", "a cow", 2)
    ('I am ___.', 'I ___ ___ a cow')
    """
    before = "" if not prompt or prompt[-1].isspace() else " "
    after = " " if suffix[:1].isalnum() else ""
    return f"{prompt}{before}{' '.join(['___'] * blanks)}{after}{suffix}"


def between(prompt: str, suffix: str, whole: str) -> str:
    """What was put in, with its spaces.

    >>> between("I am", ".", "I am hungry.")
    ' hungry'
    """
    start = len(prompt) if whole.startswith(prompt) else len(prompt.rstrip())
    return whole[start : len(whole) - len(suffix)]


def _likeness(filling: Filling) -> float:
    return -math.log(max(filling.probability, 1e-300)) / len(filling.tokens)


def _text(prompt: str | list[int]) -> str:
    if not isinstance(prompt, str):
        raise RefusalError(400, "a prompt before a suffix is text, not token ids", param="prompt")
    if BLANK.search(prompt):
        raise RefusalError(400, "the prompt has blanks of its own; use /fill for them", param="prompt")
    return prompt
