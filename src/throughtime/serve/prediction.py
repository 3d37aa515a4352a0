"""Endpoints of taggers, classifiers, models that fill blanks and models that compose texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, create_model
from starlette.responses import Response

from throughtime.results import Composed
from throughtime.runtime.keywords import WritingOptions
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.cost import ENTRY, Cost, count_hypotheses
from throughtime.serve.models import Served
from throughtime.serve.requests import (
    RefusalError,
    SearchRequest,
    Text,
    Texts,
    TextsRequest,
    VectorsRequest,
    as_list,
    check_cost,
    check_limit,
    check_texts,
    take_options,
)
from throughtime.serve.service import admit, ask, batch_key, get_service
from throughtime.tasks import Task
from throughtime.text.framing import BLANK

if TYPE_CHECKING:
    from throughtime.tasks.compose.model import Composer
    from throughtime.tasks.compose.runner import Condition

MAX_RESULTS = 100
MAX_BLANKS = 4
"""A model fills each blank with one token; a gap before a suffix has at most this number of blanks."""

router = APIRouter(tags=["prediction"])
Number = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(min_length=1, fail_fast=True)]
Vectors = Vector | Annotated[list[Vector], Field(min_length=1, fail_fast=True)]


@take_options(WritingOptions, "search")
class ComposeRequest(SearchRequest):
    """Labels or vectors to write texts from, `num_return_sequences` for each.

    Temperature 0 takes the likeliest token at each step. `search` names a strategy, and its options are
    additional fields.
    """

    label: Texts | None = None
    vector: Vectors | None = None
    model: Text | None = None

    @classmethod
    def choose_search(cls, values: Mapping[str, Any]) -> Any:
        """A number of beams asks for beam search, as in Python."""
        return values.get("search") or ("beam" if values.get("num_beams") is not None else None)


class Results(BaseModel):
    """One result for each text, in their order, and the name of the model.

    `warnings` names texts that the model knows little about; the field is absent if there are none.
    """

    model: str
    results: list[Any]
    warnings: list[str] = Field(default_factory=list)


def build_router(task: type[Task]) -> APIRouter:
    """Build the endpoint of a task whose models answer texts: its fields are `q`, `model` and the options."""
    asked_type = build_request(task)
    endpoint = APIRouter(tags=["prediction"])

    @endpoint.post(
        f"/{task.command}",
        response_model=Results,
        openapi_extra=body_schema(asked_type),
        name=task.command,
        description=task.answer,
    )
    async def predict(request: Request) -> Response:
        return await _predict(request, await read_body(request, asked_type), task)

    return endpoint


def build_request(task: type[Task]) -> type[TextsRequest]:
    """Build the type of the requests of a task whose models answer texts."""
    name = f"{task.command.title()}Request"
    base = VectorsRequest if task.vectors else TextsRequest
    kind = create_model(name, __base__=base, __doc__=f"Texts, and options. {task.answer}")
    return kind if task.prediction is None else take_options(task.prediction)(kind)


async def _check_vectors(request: Request, asked: VectorsRequest, task: type[Task]) -> None:
    """Refuse vectors that the model does not read, before they join those of other requests."""
    served = admit(request, as_list(asked.q)).models.choose(asked.model, task.command)
    vectors = getattr(served.model, "vectors", None)
    if vectors is None and asked.has_arrays:
        raise RefusalError(400, f"q: holds numbers, and {served.name} reads texts", param="q")
    if vectors is not None:
        await get_service(request).run_aside(request, lambda: [vectors.read(one) for one in as_list(asked.q)])


async def _predict(request: Request, asked: TextsRequest, task: type[Task]) -> Response:
    """Call the method of the task for the texts, in batches with requests of the same options."""
    if isinstance(asked, VectorsRequest):
        await _check_vectors(request, asked, task)
    options = asked.model_dump(exclude={"q", "model"})
    estimate = COSTS.get(task.name, _cost_of_reading)
    check_cost(estimate(as_list(asked.q), options), get_service(request).options)

    def predict(model: Any, texts: list[str]) -> list[Any]:
        answers = getattr(model, str(task.answers))(texts, **options)
        return [one.to_dict() if hasattr(one, "to_dict") else one for one in answers]

    served, answers, warnings = await ask(request, asked, task.command, predict)
    return await answer(request, {"model": served.name, "results": answers, **warnings})


def _cost_of_reading(texts: list[str], options: Mapping[str, Any]) -> Cost:
    return Cost.of_reading(texts, entries=2)  # a word has two characters or more, and four likely tags


def _cost_of_classifying(texts: list[str], options: Mapping[str, Any]) -> Cost:
    return Cost(sum(map(len, texts)), len(texts) * (options["k"] or 1) * ENTRY)


def _cost_of_filling(texts: list[str], options: Mapping[str, Any]) -> Cost:
    check_limit("k", options["k"], MAX_RESULTS)
    sizes = [(len(text), len(BLANK.findall(text))) for text in texts]
    return Cost.of_filling(sizes, options["k"], options["num_beams"])


COSTS = {"classify": _cost_of_classifying, "fill": _cost_of_filling}
"""Estimates of what texts cost; those of other tasks are only read."""


@router.post("/compose", response_model=Results, openapi_extra=body_schema(ComposeRequest))
async def compose(request: Request) -> Response:
    """Texts written from a label or a vector, with their log-probabilities."""
    asked = await read_body(request, ComposeRequest)
    service = admit(request)
    served = service.models.choose(asked.model, "compose")
    conditions = _conditions(asked, served)
    check_texts([one for one in conditions if isinstance(one, str)], service.options)
    declared = set(WritingOptions.__annotations__) - {"search"}
    options = asked.search_options(**asked.model_dump(include=declared, exclude_unset=True))
    texts = len(conditions) * options.get("num_return_sequences", 1)
    check_limit("the number of texts to write", texts, service.options.max_texts, status=413)
    check_limit("max_new_tokens", options.get("max_new_tokens", 1), service.options.max_tokens)
    composer: Composer = served.model
    if options.get("temperature") == 0 and asked.search is None:
        drawing = ("temperature", "top_k", "top_p", "seed")  # without effect on the likeliest token
        options = {name: value for name, value in options.items() if name not in drawing} | {"greedy": True}
    tokens = options.get("max_new_tokens") or int(composer.generation.get("max_new_tokens", 100))
    rows = 1 if options.keys().isdisjoint({"search", "num_beams"}) else count_hypotheses(options)
    check_cost(Cost.of_writing(len(conditions), texts, tokens, rows), service.options)

    def compute(given: Sequence[Condition]) -> list[Composed]:
        return composer.compose(given, **options)

    answers = await service.compute(request, served, batch_key("compose", options), compute, conditions)
    pairs = zip(conditions, answers, strict=True)
    results = [{"condition": condition, **one.to_dict()} for condition, one in pairs]
    return await answer(request, {"model": served.name, "results": results})


def _conditions(asked: ComposeRequest, served: Served) -> list[Condition]:
    """Return the labels or vectors, checked before they join those of other requests."""
    labels, width = served.model.labels, served.model.width
    if (asked.label is None) == (asked.vector is None):
        raise RefusalError(400, "give either label or vector")
    if asked.label is not None:
        if labels is None:
            raise RefusalError(400, f"label: {served.name} writes from a vector of {width} numbers")
        given = as_list(asked.label)
        for label in given:
            labels.number(label)
        return [*given]
    assert asked.vector is not None
    if labels is not None:
        raise RefusalError(400, f"vector: {served.name} writes from a label; /models lists its labels")
    vectors: list[Any] = asked.vector if isinstance(asked.vector[0], list) else [asked.vector]
    for vector in vectors:
        if len(vector) != width:
            raise RefusalError(400, f"vector: has {len(vector)} numbers, {served.name} writes from {width}")
    return vectors


async def infill(
    request: Request, named: Served, prompts: list[str | list[int]], suffix: str, most: int, choices: int
) -> dict[str, Any]:
    """Return choices and usage of a completion with a suffix, by a model that fills blanks.

    Gaps of one token, two tokens and so on are tried; the best has the likeliest tokens on average.
    """
    service = get_service(request)
    fillers = [named] if "fill" in named.abilities else service.models.find_by_ability("fill")
    if not fillers:
        sentence = "suffix needs a model that fills blanks, and none is loaded; leave it out"
        raise RefusalError(400, sentence, param="suffix")
    if most < 1:
        raise RefusalError(400, "max_tokens is 0, so nothing can stand before the suffix", param="max_tokens")
    filler = fillers[0]
    encode = filler.model.codec.encode
    texts = [_check_prompt(prompt) for prompt in prompts]
    gaps = range(1, min(most, MAX_BLANKS) + 1)

    sizes = [(len(text) + len(suffix), blanks) for text in texts for blanks in gaps]
    check_cost(Cost.of_filling(sizes, choices), service.options)
    blanked = [insert_blanks(text, suffix, blanks) for text in texts for blanks in gaps]
    fill = partial(filler.model.fill, k=choices)
    key = ("infill", choices)
    fillings = iter(await service.compute(request, filler, key, fill, blanked))

    def choose() -> dict[str, Any]:
        answers: list[dict[str, Any]] = []
        written = read = 0
        for text in texts:
            bests = [next(fillings) for _ in gaps]
            own = [filling for best in bests for filling in (best, *best.alternatives)]
            own.sort(key=lambda one: -math.log(max(one.probability, 1e-300)) / len(one.tokens))
            for one in own[:choices]:
                choice = {"index": len(answers), "text": between(text, suffix, one.text)}
                answers.append({**choice, "logprobs": None, "finish_reason": "stop"})
                written += len(one.tokens)
            read += len(encode(text)) + len(encode(suffix))
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return {"choices": answers, "usage": usage}

    chosen = await service.run_aside(request, choose)
    warnings = await service.warnings(request, filler, [f"{text} {suffix}" for text in texts])
    return chosen | warnings


def insert_blanks(prompt: str, suffix: str, blanks: int) -> str:
    """Return the text with this number of blanks between prompt and suffix.

    >>> insert_blanks("I am", ".", 1), insert_blanks("I ", "a cow", 2)
    ('I am ___.', 'I ___ ___ a cow')
    """
    before = "" if not prompt or prompt[-1].isspace() else " "
    after = " " if suffix[:1].isalnum() else ""
    return f"{prompt}{before}{' '.join(['___'] * blanks)}{after}{suffix}"


def between(prompt: str, suffix: str, whole: str) -> str:
    """Return the text between prompt and suffix, with its spaces.

    >>> between("I am", ".", "I am hungry.")
    ' hungry'
    """
    start = len(prompt) if whole.startswith(prompt) else len(prompt.rstrip())
    return whole[start : len(whole) - len(suffix)]


def _check_prompt(prompt: str | list[int]) -> str:
    if not isinstance(prompt, str):
        raise RefusalError(400, "a prompt before a suffix must be text, not token ids", param="prompt")
    if BLANK.search(prompt):
        raise RefusalError(400, "the prompt has blanks of its own; use /fill for them", param="prompt")
    return prompt
