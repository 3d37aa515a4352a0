"""Endpoints of the page: attention, search trees, gates, next tokens, the data of a forecaster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from throughtime.data.readers.panel import read_series_panel
from throughtime.errors import InputError, ThroughtimeError
from throughtime.inspection.gates import unit_gates
from throughtime.inspection.next_tokens import next_tokens
from throughtime.inspection.translation import MAX_TOKENS, attention_view, beam_tree
from throughtime.series.panels import last_rows
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.cost import ENTRY, GATES, MAX_BEAMS, ROUNDED, USUAL_BEAMS, Cost
from throughtime.serve.requests import Fields, RefusalError, Text, TextsRequest, check_cost
from throughtime.serve.service import admit, ask, get_service
from throughtime.serve.translation import MAX_ALTERNATIVES, diverse_options

router = APIRouter(prefix="/inspect", tags=["inspection"])
CANDIDATES = 6
"""Entries of an answer for each hypothesis of a beam at a step: it, those that were rejected, and reasons."""
MAX_TEXT = 2_000
"""Maximum characters of a text to inspect: each of its tokens is drawn."""

MAX_WORDS, MAX_LETTERS = 20, 200
"""Maximum number of words that a translation must not contain, and characters of each and of a prefix."""

Sentence = Annotated[str, Field(max_length=MAX_TEXT)]
Word = Annotated[Text, Field(max_length=MAX_LETTERS)]


class TextRequest(TextsRequest):
    """A text to inspect, and the model to use."""

    q: Sentence


class SearchedRequest(TextRequest):
    """A text to translate, what its translations begin with, and the words that they must not contain."""

    prefix: Word = ""
    forbid: tuple[Word, ...] = Field((), max_length=MAX_WORDS)


class AttentionRequest(SearchedRequest):
    """A text to translate, and the number of alternatives to the best translation."""

    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)


class BeamRequest(SearchedRequest):
    """A sentence to translate, and the width of the beam; by default that of the model."""

    num_beams: int | None = Field(None, ge=1, le=MAX_BEAMS)


class GatesRequest(TextRequest):
    """A text to read, the number of a layer from 0, and the number of units to return."""

    layer: int = Field(0, ge=0)
    units: int = Field(48, ge=2, le=256)


class NextRequest(TextRequest):
    """A text, and the number of likeliest next tokens to return."""

    q: Sentence = ""
    k: int = Field(10, ge=1, le=50)


class HistoryRequest(Fields):
    """A forecaster, and the number of last rows of its training data to return."""

    model: str | None = None
    rows: int = Field(200, ge=1, le=5_000)


@router.post("/attention", openapi_extra=body_schema(AttentionRequest))
async def attention(request: Request) -> Response:
    """Translations of a text and of each of its parts, with the source words that their words attended to.

    A long text is translated in parts, usually sentences. The steps of a translation are the scores and
    weights of its attention, token by token. A text of several parts has alignments and steps in `parts`
    only; a model without attention has none.
    """
    asked = await read_body(request, AttentionRequest)

    options = diverse_options(asked.alternatives)

    def look(model: Any, text: str) -> dict[str, Any]:
        return attention_view(model, text, prefix=asked.prefix, forbid=asked.forbid, **options).to_dict()

    def estimate(model: Any, text: str) -> Cost:
        parts = model.codecs.split(text, model.generation.max_source_tokens)
        return Cost.of_attending([len(model.codecs.prompt(part)) for part in parts], options)

    return await _look(request, asked, "translate", look, estimate)


@router.post("/beam", openapi_extra=body_schema(BeamRequest))
async def beam(request: Request) -> Response:
    """The tree of a beam search: every candidate token, whether it was kept, and why."""
    asked = await read_body(request, BeamRequest)

    def look(model: Any, text: str) -> dict[str, Any]:
        return beam_tree(model, text, asked.num_beams, prefix=asked.prefix, forbid=asked.forbid).to_dict()

    def estimate(model: Any, text: str) -> Cost:
        beams = asked.num_beams or USUAL_BEAMS
        steps = Cost.of_translating([text[:MAX_TOKENS]], {"num_beams": beams}).steps
        return Cost(steps, steps * CANDIDATES * ENTRY)

    return await _look(request, asked, "translate", look, estimate)


@router.post("/gates", openapi_extra=body_schema(GatesRequest))
async def gates(request: Request) -> Response:
    """The gates of the units of one layer at each token, units that remember longest first."""
    asked = await read_body(request, GatesRequest)

    def look(model: Any, text: str) -> dict[str, Any]:
        layers = unit_gates(model, text)
        if asked.layer >= len(layers):
            problem = f"layer is {asked.layer}, but the model has {len(layers)} layers, counted from 0"
            raise RefusalError(400, problem)
        names = [{"name": layer.name, "cell": layer.cell, "units": len(layer.order)} for layer in layers]
        return {"layers": names, "layer": asked.layer, **layers[asked.layer].to_dict(asked.units)}

    def estimate(model: Any, text: str) -> Cost:
        return Cost(len(text), len(text) * asked.units * GATES * ROUNDED)

    return await _look(request, asked, "gates", look, estimate, "a model that reads text with gates")


@router.post("/next", openapi_extra=body_schema(NextRequest))
async def list_next_tokens(request: Request) -> Response:
    """The likeliest next tokens after a text, and the surprisal of each of its tokens in bits."""
    asked = await read_body(request, NextRequest)

    def look(model: Any, text: str) -> dict[str, Any]:
        return next_tokens(model, text, asked.k).to_dict()

    return await _look(request, asked, "generate", look, lambda _, text: Cost.of_reading([text], entries=1))


@router.post("/history", openapi_extra=body_schema(HistoryRequest))
async def history(request: Request) -> Response:
    """The last rows of the first series that a forecaster was trained on, if its data are available."""
    asked = await read_body(request, HistoryRequest)
    service = admit(request)
    served = service.models.choose(asked.model, "forecast")

    def compute(items: list[None]) -> list[dict[str, Any]]:
        try:
            panel = read_series_panel(served.model.open_data(download=False), served.model.config.roles)
        except (ThroughtimeError, OSError):
            sentence = f"the training data of {served.name} are not available; paste some data"
            raise RefusalError(404, sentence) from None
        rows = last_rows(panel.series[0], asked.rows)
        return [{"model": served.name, **rows}] * len(items)

    (rows,) = await service.compute(request, served, ("history", asked.rows), compute, [None])
    return await answer(request, rows)


async def _look(
    request: Request,
    asked: TextRequest,
    ability: str,
    look: Callable[[Any, str], dict[str, Any]],
    estimate: Callable[[Any, str], Cost],
    kind: str | None = None,
) -> Response:
    """Return `look(model, text)`, computed on the thread of the model, and warnings about the text."""
    options = get_service(request).options

    def compute(model: Any, texts: list[str]) -> list[dict[str, Any]]:
        for text in texts:
            check_cost(estimate(model, text), options)
        try:
            return [look(model, text) for text in texts]
        except InputError:
            raise
        except ThroughtimeError as error:
            raise RefusalError(400, str(error)) from error

    served, (view,), warnings = await ask(request, asked, ability, compute, kind)
    return await answer(request, {"model": served.name, **view, **warnings})
