"""Taggers, classifiers, fill-in models and forecasters behind plain JSON."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from throughtime.serve.batching import Left
from throughtime.serve.bodies import Text, Texts, listed
from throughtime.serve.limits import check_key, check_texts
from throughtime.serve.models import Served
from throughtime.serve.service import service_of
from throughtime.text.tokenizers import tokenizer

router = APIRouter(tags=["prediction"])
MOST_RESULTS = 100


class TagRequest(BaseModel):
    """Sentences; `tokenize` cuts them into words: space for words apart by spaces, unicode for raw text."""

    q: Texts
    model: Text | None = None
    tokenize: Text = "space"


class ClassifyRequest(BaseModel):
    """Texts, and how many of the likeliest labels to tell; all if not given."""

    q: Texts
    model: Text | None = None
    k: int | None = Field(None, ge=1)


class FillRequest(BaseModel):
    """Texts with blanks, written ___ or [MASK], and how many fillings of each to tell."""

    q: Texts
    model: Text | None = None
    k: int = Field(5, ge=1, le=MOST_RESULTS)


class Results(BaseModel):
    """One result for each text, in their order, and the model that gave them.

    `warnings` names texts that the model knows little about; the field is absent if there are none.
    """

    model: str
    results: list[Any]
    warnings: list[str] = Field(default_factory=list)


@router.post("/tag", response_model_exclude_unset=True)
async def tag(request: Request, asked: TagRequest) -> Results:
    """The tag of each word, with its probability and the likeliest tags."""
    served, texts = _asked(request, asked.q, asked.model, "tag")
    tokenizer(asked.tokenize)

    def compute(items: list[str], left: Left) -> list[dict[str, Any]]:
        return [one.values() for one in served.model.tag(items, tokenize=asked.tokenize)]

    key = ("tag", asked.tokenize)
    found = await service_of(request).computed(request, served, key, compute, texts)
    return await _with_warnings(request, served, texts, found)


@router.post("/classify", response_model_exclude_unset=True)
async def classify(request: Request, asked: ClassifyRequest) -> Results:
    """The likeliest label of each text, and the probabilities of the others."""
    served, texts = _asked(request, asked.q, asked.model, "classify")

    def compute(items: list[str], left: Left) -> list[dict[str, Any]]:
        return [one.values() for one in served.model.classify(items, k=asked.k)]

    key = ("classify", asked.k)
    found = await service_of(request).computed(request, served, key, compute, texts)
    return await _with_warnings(request, served, texts, found)


@router.post("/fill", response_model_exclude_unset=True)
async def fill(request: Request, asked: FillRequest) -> Results:
    """The likeliest words for the blanks of each text, filled in together."""
    served, texts = _asked(request, asked.q, asked.model, "fill")

    def compute(items: list[str], left: Left) -> list[list[dict[str, Any]]]:
        return [[one.values() for one in own] for own in served.model.fill_all(items, k=asked.k)]

    key = ("fill", asked.k)
    found = await service_of(request).computed(request, served, key, compute, texts)
    return await _with_warnings(request, served, texts, found)


async def _with_warnings(request: Request, served: Served, texts: list[str], found: list[Any]) -> Results:
    """The results, with warnings about the texts."""
    warnings = await service_of(request).warnings(served, texts)
    return Results(model=served.name, results=found, **warnings)


def _asked(request: Request, q: str | list[str], name: str | None, task: str) -> tuple[Served, list[str]]:
    """The model and the texts of a request that may be answered."""
    service = service_of(request)
    check_key(request, service.options)
    texts = listed(q)
    check_texts(texts, service.options)
    return service.models.chosen(name, task), texts
