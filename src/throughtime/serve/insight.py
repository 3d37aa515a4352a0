"""What the page asks to see: attention, the search, gates, the next token, a forecaster's own history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from throughtime.data.datasets import open_dataset
from throughtime.data.panel import format_times
from throughtime.data.readers.panel import panel_of
from throughtime.errors import InputError, ThroughtimeError
from throughtime.inspection.beam_tree import beam_tree
from throughtime.inspection.next_tokens import next_tokens
from throughtime.inspection.unit_gates import unit_gates
from throughtime.serve.batching import Left
from throughtime.serve.limits import check_key, check_texts
from throughtime.serve.models import WRITERS, Models, Served
from throughtime.serve.refusals import RefusalError
from throughtime.serve.service import service_of
from throughtime.serve.translation import MOST_ALTERNATIVES, Leaving

router = APIRouter(prefix="/inspect", tags=["inspection"])
GATED = ("translate", "language", "fill", "tag", "classify")
"""Tasks whose models read tokens through gates."""
MOST_TEXT = 2_000
"""Characters of a text that is looked into: each of its tokens is drawn."""

Sentence = Annotated[str, Field(max_length=MOST_TEXT)]


class AttentionRequest(BaseModel):
    """A text to translate, and how many translations besides the best to tell."""

    q: Sentence
    model: str | None = None
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES)


class BeamRequest(BaseModel):
    """A sentence to translate, and the width of the beam; the model's own if not given."""

    q: Sentence
    model: str | None = None
    num_beams: int | None = Field(None, ge=1, le=20)


class GatesRequest(BaseModel):
    """A text to read, the number of a layer from 0, and how many of its units to tell."""

    q: Sentence
    model: str | None = None
    layer: int = Field(0, ge=0)
    units: int = Field(48, ge=2, le=256)


class NextRequest(BaseModel):
    """A text, and how many of the likeliest next tokens to tell."""

    q: Sentence = ""
    model: str | None = None
    k: int = Field(10, ge=1, le=50)


class HistoryRequest(BaseModel):
    """A forecaster, and how many of the last rows of its own data to tell."""

    model: str | None = None
    rows: int = Field(200, ge=1, le=5_000)


@router.post("/attention")
async def attention(request: Request, asked: AttentionRequest) -> dict[str, Any]:
    """The best translations of a text, each with the source words that its words looked at.

    The alignment is null where a model has no attention.
    """
    served = _allowed(request, asked.q).chosen(asked.model, "translate")
    translator, shown = served.model, asked.alternatives + 1

    def compute(items: list[str], left: Left) -> list[list[dict[str, Any]]]:
        search = translator.unlike_each_other(asked.alternatives) if asked.alternatives else translator.beam()
        told = translator.translate(items, search=lambda most: Leaving(search(most), left), align=True)
        return [[one.values() for one in own[:shown]] for own in told]

    key = ("attention", asked.alternatives)
    service = service_of(request)
    (found,) = await service.computed(request, served, key, compute, [asked.q])
    warnings = await service.warnings(served, [asked.q])
    return {"model": served.name, "source": asked.q, "translations": found} | warnings


@router.post("/beam")
async def beam(request: Request, asked: BeamRequest) -> dict[str, Any]:
    """The tree of a beam search: every token it weighed, whether it was kept or cut, and why."""
    served = _allowed(request, asked.q).chosen(asked.model, "translate")
    return await _seen(
        request,
        served,
        ("beam", asked.num_beams),
        lambda text: beam_tree(served.model, text, asked.num_beams).values(),
        asked.q,
    )


@router.post("/gates")
async def gates(request: Request, asked: GatesRequest) -> dict[str, Any]:
    """The gates of the units of one layer at each token, those that remember longest first."""
    models = _allowed(request, asked.q)
    served = _of(models, asked.model, GATED, "reads text with gates")

    def told(text: str) -> dict[str, Any]:
        layers = unit_gates(served.model, text)
        if asked.layer >= len(layers):
            raise RefusalError(400, f"layer is {asked.layer}, the model has {len(layers)}, counted from 0")
        names = [{"name": one.name, "cell": one.cell, "units": len(one.order)} for one in layers]
        return {"layers": names, "layer": asked.layer, **layers[asked.layer].told(asked.units)}

    return await _seen(request, served, ("gates", asked.layer, asked.units), told, asked.q)


@router.post("/next")
async def following(request: Request, asked: NextRequest) -> dict[str, Any]:
    """The likeliest next tokens after a text, and how much each token of it surprised the model, in bits."""
    models = _allowed(request, asked.q)
    served = _of(models, asked.model, WRITERS, "is a language model")
    return await _seen(
        request,
        served,
        ("next", asked.k),
        lambda text: next_tokens(served.model, text, asked.k).values(),
        asked.q,
    )


@router.post("/history")
async def history(request: Request, asked: HistoryRequest) -> dict[str, Any]:
    """The last rows of the first series that a forecaster was trained on, where its data are at hand."""
    served = _allowed(request, "").chosen(asked.model, "forecast")

    def told(_: str) -> dict[str, Any]:
        config, skip_bad = served.model.config, served.model.skips_bad
        try:
            dataset = open_dataset(
                config.data, date_format=config.date_format, download=False, skip_bad=skip_bad
            )
            panel = panel_of(dataset, config.roles)
        except (InputError, OSError):
            raise RefusalError(
                404, f"the data that {served.name} was trained on are not here; paste some"
            ) from None
        one = panel.series[0]
        last = one.ds[-asked.rows :]
        ds = format_times(last) if last.dtype.kind == "M" else last.tolist()
        y = [float(value) if np.isfinite(value) else None for value in one.y[-asked.rows :]]
        return {"unique_id": one.unique_id, "ds": ds, "y": y}

    return await _seen(request, served, ("history", asked.rows), told, "")


def _allowed(request: Request, text: str) -> Models:
    """The models, for a request that may be answered."""
    options = service_of(request).options
    check_key(request, options)
    check_texts([text], options)
    return service_of(request).models


def _of(models: Models, name: str | None, tasks: tuple[str, ...], what: str) -> Served:
    """The model of this name, or the first of these tasks."""
    if name is None:
        found = models.of(*tasks)
        if not found:
            raise RefusalError(404, f"no model here {what}", param="model")
        return found[0]
    served = models.named(name)
    if served.task not in tasks:
        raise RefusalError(400, f"{served.name} is no model that {what}", param="model")
    return served


async def _seen(
    request: Request, served: Served, key: tuple[Any, ...], see: Callable[[str], dict[str, Any]], text: str
) -> dict[str, Any]:
    """What is seen of one text, computed on the model's own thread."""

    def compute(items: list[str], left: Left) -> list[dict[str, Any]]:
        try:
            return [see(item) for item in items]
        except InputError:
            raise
        except ThroughtimeError as error:
            raise RefusalError(400, str(error)) from error

    service = service_of(request)
    (found,) = await service.computed(request, served, key, compute, [text])
    return {"model": served.name, **found} | (await service.warnings(served, [text]) if text else {})
