"""The endpoint of models that write texts from a label or a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from throughtime.serve.batching import AbandonedError, Left
from throughtime.serve.bodies import Text, Texts, listed
from throughtime.serve.limits import check_key, check_texts
from throughtime.serve.models import Served
from throughtime.serve.options import Options
from throughtime.serve.prediction import Results
from throughtime.serve.refusals import RefusalError
from throughtime.serve.service import service_of

if TYPE_CHECKING:
    from throughtime.results import Composed
    from throughtime.search import Moment
    from throughtime.tasks.compose.predictor import Composer, Condition

router = APIRouter(tags=["prediction"])
MOST_CHOICES = 16

Vector = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]
Vectors = Vector | Annotated[list[Vector], Field(min_length=1)]


class ComposeRequest(BaseModel):
    """A label or a vector to write from, or a list of them; `n` texts are drawn for each.

    Temperature 0 takes the most likely token at each step.
    """

    label: Texts | None = None
    vector: Vectors | None = None
    model: Text | None = None
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = Field(None, ge=0, lt=2**31)


@router.post("/compose")
async def compose(request: Request, asked: ComposeRequest) -> Results:
    """Texts written from a label or a vector, with their log-probabilities."""
    service = service_of(request)
    check_key(request, service.options)
    served = service.models.chosen(asked.model, "compose")
    conditions = _conditions(asked, served)
    _check(asked, conditions, service.options)
    composer: Composer = served.model
    greedy = asked.temperature == 0

    def written(given: Sequence[Condition], left: Left) -> list[list[Composed]]:
        def watch(moment: Moment) -> None:
            if left():
                raise AbandonedError

        return composer.compose(
            given,
            num_return_sequences=asked.n,
            greedy=greedy or None,
            temperature=None if greedy else asked.temperature,
            top_p=None if greedy else asked.top_p,
            seed=asked.seed,
            max_new_tokens=asked.max_tokens,
            watch=watch,
        )

    key = ("compose", asked.n, asked.temperature, asked.top_p, asked.max_tokens, asked.seed)
    if asked.seed is None:
        found = await service.computed(request, served, key, written, conditions)
    else:
        # Sampling depends on the whole batch, so a request with a seed is computed in its own batch.
        (found,) = await service.computed(
            request, served, key, lambda items, left: [written(item, left) for item in items], [conditions]
        )
    results = [
        {"condition": condition, "texts": [one.to_dict() for one in own]}
        for condition, own in zip(conditions, found, strict=True)
    ]
    return Results(model=served.name, results=results)


def _conditions(asked: ComposeRequest, served: Served) -> list[Condition]:
    """The labels or vectors, checked before they are batched with those of other requests."""
    composer: Composer = served.model
    if (asked.label is None) == (asked.vector is None):
        raise RefusalError(400, "give either label or vector")
    if asked.label is not None:
        if composer.labels is None:
            raise RefusalError(
                400, f"label: {served.name} writes from a vector of {composer.width} numbers", param="label"
            )
        labels = listed(asked.label)
        for label in labels:
            composer.labels.number(label)
        return [*labels]
    assert asked.vector is not None
    if composer.labels is not None:
        raise RefusalError(
            400, f"vector: {served.name} writes from a label; /models lists its labels", param="vector"
        )
    vectors: list[Any] = asked.vector if isinstance(asked.vector[0], list) else [asked.vector]
    for vector in vectors:
        if len(vector) != composer.width:
            raise RefusalError(
                400,
                f"vector: has {len(vector)} numbers, {served.name} writes from {composer.width}",
                param="vector",
            )
    return vectors


def _check(asked: ComposeRequest, conditions: Sequence[Condition], options: Options) -> None:
    """Refuse a request for more than the limits of the server."""
    check_texts([one for one in conditions if isinstance(one, str)], options)
    if len(conditions) * asked.n > options.max_texts:
        raise RefusalError(
            413, f"{len(conditions) * asked.n:,} texts at once; at most {options.max_texts:,} are written"
        )
    if asked.max_tokens is not None and asked.max_tokens > options.max_tokens:
        raise RefusalError(400, f"max_tokens is {asked.max_tokens}, at most {options.max_tokens}")
    if asked.temperature == 0 and asked.n > 1:
        raise RefusalError(400, f"n is {asked.n}, but temperature 0 writes one text; leave one of them out")
