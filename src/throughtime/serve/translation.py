"""Translators with LibreTranslate's API, for texts and for HTML pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from throughtime.runtime.shortlist import MAX_CANDIDATES
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.cost import MAX_BEAMS, Cost
from throughtime.serve.markup import LinkedText, translate_linked, translate_pages
from throughtime.serve.models import Served
from throughtime.serve.requests import Fields, RefusalError, SearchRequest, Text, Texts, as_list, check_cost
from throughtime.serve.service import Service, admit, batch_key, get_service
from throughtime.text.html_page import HtmlPage
from throughtime.text.languages import Guess, language_name

MAX_ALTERNATIVES = 10

router = APIRouter(tags=["translation"])


class TranslateRequest(SearchRequest):
    """Texts to translate. `source` may be "auto"; `model` selects one of several translators."""

    usual_search: ClassVar[str] = "beam"  # as in Python
    q: Texts
    source: Text
    target: Text
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)
    num_beams: int | None = Field(None, ge=1, le=MAX_BEAMS)
    length_penalty: float | None = Field(None, ge=0, le=10)
    num_return_sequences: int = Field(1, ge=1, le=MAX_ALTERNATIVES + 1)
    shortlist: int | None = Field(None, ge=0, le=MAX_CANDIDATES)
    api_key: Text | None = None
    model: Text | None = None

    def sentences(self, texts: Sequence[str]) -> list[str]:
        """Return the texts to translate; for an HTML page its sentences, without tags and code."""
        if self.format == "text":
            return list(texts)
        return [" ".join(segment.text for segment in HtmlPage(text).segments) for text in texts]


class DetectRequest(Fields):
    """A text in an unknown language; several are joined."""

    q: Texts
    api_key: Text | None = None


class Translated(BaseModel):
    """The translation; lists if `q` is a list.

    `warnings` names texts that the model knows little about; the field is absent if there are none.
    """

    translatedText: str | list[str]  # noqa: N815 - the contract's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: dict[str, Any] | list[dict[str, Any]] | None = None  # noqa: N815
    warnings: list[str] | None = None


@router.post("/translate", response_model=Translated, openapi_extra=body_schema(TranslateRequest, forms=True))
async def translate(request: Request) -> Response:
    """Translate a text or several.

    With format html, a sentence is translated as a whole, and its inline tags go around the same words.
    """
    asked = await read_body(request, TranslateRequest, forms=True)
    if asked.alternatives and (asked.num_beams or asked.num_return_sequences > 1 or asked.search):
        sentence = "alternatives: has its own search; leave out search, num_beams and num_return_sequences"
        raise RefusalError(400, sentence)
    texts = as_list(asked.q)
    service = admit(request, texts, asked.api_key)
    guesses: list[Guess] = []
    if asked.source == "auto":
        guesses = await service.run_aside(
            request, lambda: [_best_guess(service, one) for one in asked.sentences(texts)]
        )
    sources = [guess.language for guess in guesses] or [asked.source] * len(texts)
    translations: list[list[str]] = [[]] * len(texts)
    warnings: list[str] = []
    for source in dict.fromkeys(sources):
        numbers = [number for number, one in enumerate(sources) if one == source]
        own = [texts[number] for number in numbers]
        served = _choose_translator(service, asked, source)
        if served is None:
            translated = [[text] for text in own]
        else:
            translated = await _translations(request, served, asked, own)
            places = None if len(texts) == 1 else [number + 1 for number in numbers]
            plain = await service.run_aside(request, partial(asked.sentences, own))
            warned = await service.warnings(request, served, plain, numbers=places)
            warnings += warned.get("warnings", [])
        for number, one in zip(numbers, translated, strict=True):
            translations[number] = one
    shaped: Callable[[list[Any]], Any] = itemgetter(0) if isinstance(asked.q, str) else list
    others = asked.alternatives or asked.num_return_sequences > 1
    values = {
        "translatedText": shaped([translation[0] for translation in translations]),
        "alternatives": shaped([one[1:] for one in translations]) if others else None,
        "detectedLanguage": shaped([asdict(guess) for guess in guesses]) if guesses else None,
        "warnings": warnings or None,
    }
    return await answer(request, {name: value for name, value in values.items() if value is not None})


@router.get("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages, and the targets of each."""
    targets: dict[str, set[str]] = {}
    for served in get_service(request).models.find_by_ability("translate"):
        targets.setdefault(served.source, {served.source}).add(served.target)
        targets.setdefault(served.target, {served.target})
    names = {code: language_name(code) for code in targets}
    return [{"code": code, "name": names[code], "targets": sorted(own)} for code, own in targets.items()]


@router.post("/detect", openapi_extra=body_schema(DetectRequest, forms=True))
async def detect(request: Request) -> list[dict[str, Any]]:
    """Detect the language of a text: the likeliest first, with confidences from 0 to 100."""
    asked = await read_body(request, DetectRequest, forms=True)
    texts = as_list(asked.q)
    service = admit(request, texts, asked.api_key)
    guesses = await service.run_aside(request, lambda: service.detector.guesses(" ".join(texts)))
    return [asdict(guess) for guess in guesses if guess.confidence > 0]


@router.get("/frontend/settings")
async def settings(request: Request) -> dict[str, Any]:
    """Settings that the page of LibreTranslate requests."""
    service = get_service(request)
    language = {
        side: {"code": code, "name": language_name(code)}
        for one in service.models.find_by_ability("translate")[:1]
        for side, code in (("source", one.source), ("target", one.target))
    }
    keys = {"apiKeys": service.keys.required, "keyRequired": service.keys.required}
    limits = {"charLimit": service.options.max_characters, "frontendTimeout": 500}
    lacking = {"suggestions": False, "filesTranslation": False, "supportedFilesFormat": []}
    return {**keys, **limits, "language": language, **lacking}


def _best_guess(service: Service, text: str) -> Guess:
    guesses = service.detector.guesses(text)
    if not guesses:
        raise RefusalError(400, "the source language cannot be detected; give it as source")
    return guesses[0]


def _choose_translator(service: Service, asked: TranslateRequest, source: str) -> Served | None:
    """Return the translator; None if a text is in the target language already."""
    direction = (source, asked.target)
    if asked.model is not None:
        chosen = service.models.choose(asked.model, "translate")
        if (chosen.source, chosen.target) != direction:
            sentence = f"{chosen.name} translates from {chosen.source} to {chosen.target}, nothing else"
            raise RefusalError(400, sentence)
        return chosen
    translators = service.models.find_by_ability("translate")
    if not translators:
        raise RefusalError(404, "no model here is a translator")
    codes = {code for one in translators for code in (one.source, one.target)}
    for code in direction:
        if code not in codes:
            shown, known = repr(code if len(code) <= 40 else f"{code[:40]}..."), ", ".join(sorted(codes))
            raise RefusalError(400, f"{shown} is not supported; the languages here are {known}")
    if source == asked.target:
        return None
    for translator in translators:
        if (translator.source, translator.target) == direction:
            return translator
    raise RefusalError(400, f"{asked.target} is not available as a target language from {source}")


async def _translations(
    request: Request, served: Served, asked: TranslateRequest, texts: list[str]
) -> list[list[str]]:
    """Return the best translation of each text and the alternatives, in batches with other requests."""

    names = {"num_beams", "length_penalty", "num_return_sequences", "shortlist"}
    options = asked.search_options(**asked.model_dump(include=names)) | diverse_options(asked.alternatives)
    search = partial(served.model.translate, **options)

    async def translate(sentences: Sequence[str], linked: bool) -> list[list[LinkedText]]:
        def compute(items: list[str]) -> list[list[LinkedText]]:
            if linked:
                return translate_linked(served.model, items, partial(search, align=True))
            return [[LinkedText(one.text) for one in (best, *best.alternatives)] for best in search(items)]

        check_cost(Cost.of_translating(sentences, options), get_service(request).options)
        key = batch_key("translate", {"linked": linked, **options})
        return await get_service(request).compute(request, served, key, compute, sentences)

    if asked.format == "html":
        return await translate_pages(texts, translate, partial(get_service(request).run_aside, request))
    return [[one.text for one in own] for own in await translate(texts, False)]


def diverse_options(alternatives: int) -> dict[str, Any]:
    """Return the options of `translate` for this number of alternatives to the best translation."""
    return {"search": "diverse", "num_return_sequences": alternatives + 1} if alternatives else {}
