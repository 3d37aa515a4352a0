"""Translators with LibreTranslate's API, for texts and for HTML pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from throughtime.interrupt import check_interrupt
from throughtime.ngram.detection import Guess
from throughtime.runtime.shortlist import MOST_CANDIDATES
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.cost import MOST_BEAMS, Cost
from throughtime.serve.models import Served
from throughtime.serve.requests import (
    Fields,
    RefusalError,
    SearchRequest,
    Text,
    Texts,
    as_list,
    check_cost,
)
from throughtime.serve.service import Service, admit, batch_key, get_service
from throughtime.text.codec import END
from throughtime.text.html_page import HtmlPage
from throughtime.text.html_tags import Link, word_links
from throughtime.text.languages import language_name

if TYPE_CHECKING:
    from throughtime.results import Translation
    from throughtime.tasks.translate.translation import SentenceTranslator

MOST_ALTERNATIVES = 10

router = APIRouter(tags=["translation"])


class TranslateRequest(SearchRequest):
    """Texts to translate. `source` may be "auto"; `model` selects one of several translators."""

    usual_search: ClassVar[str] = "beam"  # as in Python
    q: Texts
    source: Text
    target: Text
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES)
    num_beams: int | None = Field(None, ge=1, le=MOST_BEAMS)
    length_penalty: float | None = Field(None, ge=0, le=10)
    num_return_sequences: int = Field(1, ge=1, le=MOST_ALTERNATIVES + 1)
    shortlist: int | None = Field(None, ge=0, le=MOST_CANDIDATES)
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


@router.post(
    "/translate",
    response_model=Translated,
    openapi_extra=body_schema(TranslateRequest, forms=True),
)
async def translate(request: Request) -> Response:
    """Translate a text or several.

    With format html, a sentence is translated as a whole, and its inline tags go around the same words.
    """
    asked = await read_body(request, TranslateRequest, forms=True)
    if asked.alternatives and (asked.num_beams or asked.num_return_sequences > 1 or asked.search):
        sentence = (
            "alternatives: has a search of its own; leave out search, num_beams and num_return_sequences"
        )
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
        "translatedText": shaped([one[0] for one in translations]),
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
    return [
        {"code": code, "name": language_name(code), "targets": sorted(own)} for code, own in targets.items()
    ]


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
    return {
        "apiKeys": service.keys.required,
        "keyRequired": service.keys.required,
        "charLimit": service.options.max_characters,
        "frontendTimeout": 500,
        "language": language,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
    }


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
    for one in translators:
        if (one.source, one.target) == direction:
            return one
    raise RefusalError(400, f"{asked.target} is not available as a target language from {source}")


class LinkedText(NamedTuple):
    """A translation, with links to its source words if the model has attention."""

    text: str
    links: Sequence[Link] = ()


Translate = Callable[[Sequence[str], bool], Awaitable[list[list[LinkedText]]]]
"""Returns the translations of each text, best first; with links if the second argument is true."""
RunAside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread; see `Service.run_aside`."""


async def _translations(
    request: Request, served: Served, asked: TranslateRequest, texts: list[str]
) -> list[list[str]]:
    """Return the best translation of each text and the alternatives, in batches with other requests."""

    options = asked.search_options(
        **asked.model_dump(include={"num_beams", "length_penalty", "num_return_sequences", "shortlist"})
    )

    async def translate(sentences: Sequence[str], linked: bool) -> list[list[LinkedText]]:
        def compute(items: list[str]) -> list[list[LinkedText]]:
            results = search_translations(served.model, items, asked.alternatives, align=linked, **options)
            return [
                [LinkedText(one.text, find_links(item, one)) for one in (best, *best.alternatives)]
                for item, best in zip(items, results, strict=True)
            ]

        results = {"num_return_sequences": asked.alternatives + 1} if asked.alternatives else {}
        check_cost(Cost.of_translating(sentences, options | results), get_service(request).options)
        key = batch_key("translate", {"alternatives": asked.alternatives, "linked": linked, **options})
        return await get_service(request).compute(request, served, key, compute, sentences)

    if asked.format == "html":
        return await translate_pages(texts, translate, partial(get_service(request).run_aside, request))
    return [[one.text for one in own] for own in await translate(texts, False)]


def search_translations(
    translator: SentenceTranslator,
    texts: list[str],
    alternatives: int,
    **options: Any,
) -> list[Translation]:
    """Translate each text; `alternatives` to the best translation come from diverse beam search."""
    return translator.translate(texts, **(options | diverse_options(alternatives)))


def diverse_options(alternatives: int) -> dict[str, Any]:
    """Return the options of `translate` for this number of alternatives to the best translation."""
    return {"search": "diverse", "num_return_sequences": alternatives + 1} if alternatives else {}


async def translate_pages(
    pages: Sequence[str], translate: Translate, run_aside: RunAside = asyncio.to_thread
) -> list[list[str]]:
    """Return the translations of each page: as many as its sentence with the most alternatives has."""
    parsed = await run_aside(lambda: [HtmlPage(page) for page in pages])
    segments = [segment for page in parsed for segment in page.segments]
    translations: dict[int, list[LinkedText]] = {}
    for linked in (False, True):
        numbers = [number for number, segment in enumerate(segments) if segment.has_tags == linked]
        translated = await translate([segments[number].text for number in numbers], linked)
        translations.update(zip(numbers, translated, strict=True))
    whole: list[list[str]] = await run_aside(partial(_whole_pages, parsed, translations))
    return whole


def _whole_pages(parsed: Sequence[HtmlPage], translations: Mapping[int, list[LinkedText]]) -> list[list[str]]:
    rest = iter(range(len(translations)))
    whole = []
    for page in parsed:
        pairs = [(segment, translations[next(rest)]) for segment in page.segments]
        ranks = max((len(own) for _, own in pairs), default=1)
        # A sentence with fewer alternatives uses its last.
        versions = [[(one, own[min(rank, len(own) - 1)]) for one, own in pairs] for rank in range(ranks)]
        check_interrupt()
        whole.append(
            [
                page.replace_segments([one.render_translation(*best) for one, best in version])
                for version in versions
            ]
        )
    return whole


def find_links(source: str, translation: Translation) -> list[Link]:
    """Link each target word to the source word with the most attention; empty without attention."""
    alignment = translation.alignment
    if alignment is None:
        return []
    words = [number for number, word in enumerate(alignment.source) if word != END]
    origins: list[int | None] = []
    for target, row in zip(alignment.target, alignment.weights, strict=True):
        if target == END or not words:
            origins.append(None)
            continue
        best = row.index(max(row))
        origins.append(best if alignment.source[best] != END else max(words, key=row.__getitem__))
    return word_links(source, translation.text, alignment.source, alignment.target, origins)
