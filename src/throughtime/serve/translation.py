"""Translators behind LibreTranslate's contract."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from throughtime.ngram.detection import Guess
from throughtime.serve.batching import AbandonedError, Left
from throughtime.serve.bodies import Text, Texts, listed, read_body, schema_of
from throughtime.serve.limits import check_key, check_texts
from throughtime.serve.markup import Written, links_of, translated_pages
from throughtime.serve.models import Served
from throughtime.serve.refusals import RefusalError
from throughtime.serve.service import Service, service_of
from throughtime.text.html_page import HtmlPage
from throughtime.text.languages import language_name

if TYPE_CHECKING:
    from throughtime.search import Moment, Strategy
    from throughtime.tasks.translate.predictor import Translator

MOST_ALTERNATIVES = 10

router = APIRouter(tags=["translation"])


class TranslateRequest(BaseModel):
    """What to translate. `source` may be "auto"; `model` chooses among translators of one direction."""

    q: Texts
    source: Text
    target: Text
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES)
    api_key: Text | None = None
    model: Text | None = None


class DetectRequest(BaseModel):
    """A text, or several of them as one, in an unknown language."""

    q: Texts
    api_key: Text | None = None


class Translated(BaseModel):
    """The translation; lists where `q` was one.

    `warnings` names texts that the model knows little about; the field is absent if there are none.
    """

    translatedText: str | list[str]  # noqa: N815 - the contract's name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: dict[str, Any] | list[dict[str, Any]] | None = None  # noqa: N815
    warnings: list[str] | None = None


@router.post(
    "/translate",
    response_model=Translated,
    response_model_exclude_none=True,
    openapi_extra=schema_of(TranslateRequest),
)
async def translate(request: Request) -> Translated:
    """Translate a text or several.

    With format html, a sentence is translated as a whole, and its inline tags go around the same words.
    """
    asked = await read_body(request, TranslateRequest)
    service = service_of(request)
    check_key(request, service.options, asked.api_key)
    texts = listed(asked.q)
    check_texts(texts, service.options)
    guesses: list[Guess | None] = [None] * len(texts)
    if asked.source == "auto":
        guesses = list(
            await asyncio.to_thread(lambda: [_best(service, one) for one in _plain_texts(asked, texts)])
        )
    sources = [asked.source if guess is None else guess.language for guess in guesses]
    found: list[list[str]] = [[]] * len(texts)
    warnings: list[str] = []
    for source in dict.fromkeys(sources):
        own = [number for number, one in enumerate(sources) if one == source]
        translated = await _translated(request, asked, source, [texts[number] for number in own])
        for number, one in zip(own, translated, strict=True):
            found[number] = one
        numbers = None if len(texts) == 1 else [number + 1 for number in own]
        warnings += await _warnings(service, asked, source, [texts[number] for number in own], numbers)
    single = isinstance(asked.q, str)
    told = [
        None if guess is None else {"confidence": guess.confidence, "language": guess.language}
        for guess in guesses
    ]
    others = [one[1:] for one in found]
    return Translated(
        translatedText=found[0][0] if single else [one[0] for one in found],
        alternatives=None if not asked.alternatives else others[0] if single else others,
        detectedLanguage=None if asked.source != "auto" else told[0] if single else told,  # type: ignore[arg-type]
        warnings=warnings or None,
    )


@router.get("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages, and to which each can be translated."""
    targets: dict[str, set[str]] = {}
    for served in service_of(request).models.of("translate"):
        targets.setdefault(served.source, {served.source}).add(served.target)
        targets.setdefault(served.target, {served.target})
    return [
        {"code": code, "name": language_name(code), "targets": sorted(own)} for code, own in targets.items()
    ]


@router.post("/detect", openapi_extra=schema_of(DetectRequest))
async def detect(request: Request) -> list[dict[str, Any]]:
    """Which of the languages here a text is in, the likeliest first, with confidences from 0 to 100."""
    asked = await read_body(request, DetectRequest)
    service = service_of(request)
    check_key(request, service.options, asked.api_key)
    texts = listed(asked.q)
    check_texts(texts, service.options)
    guesses = await asyncio.to_thread(lambda: service.detector.guesses(" ".join(texts)))
    likely = [guess for guess in guesses if guess.confidence > 0]
    return [{"confidence": guess.confidence, "language": guess.language} for guess in likely]


@router.get("/frontend/settings")
async def settings(request: Request) -> dict[str, Any]:
    """What LibreTranslate's own page asks first."""
    service = service_of(request)
    translators = service.models.of("translate")
    language = {
        side: {"code": code, "name": language_name(code)}
        for one in translators[:1]
        for side, code in (("source", one.source), ("target", one.target))
    }
    return {
        "apiKeys": service.options.api_key is not None,
        "keyRequired": service.options.api_key is not None,
        "charLimit": service.options.max_characters,
        "frontendTimeout": 500,
        "language": language,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
    }


async def _translated(
    request: Request, asked: TranslateRequest, source: str, texts: list[str]
) -> list[list[str]]:
    """For each text its translation and the alternatives."""
    service = service_of(request)
    served = _translator(service, asked, source)
    if served is None:
        return [[text] for text in texts]
    if asked.format == "text":
        return await translations(request, served, texts, asked.alternatives)

    async def write(sentences: Sequence[str], linked: bool) -> list[list[Written]]:
        return await written(request, served, sentences, asked.alternatives, linked)

    return await translated_pages(texts, write)


async def _warnings(
    service: Service, asked: TranslateRequest, source: str, texts: list[str], numbers: list[int] | None
) -> list[str]:
    """Warnings about these texts."""
    served = _translator(service, asked, source)
    if served is None:
        return []
    said = await asyncio.to_thread(_plain_texts, asked, texts)
    return (await service.warnings(served, said, numbers=numbers)).get("warnings", [])


def _translator(service: Service, asked: TranslateRequest, source: str) -> Served | None:
    """Who translates; None where a text is in the language asked for already."""
    if asked.model is not None:
        chosen = service.models.chosen(asked.model, "translate")
        if (chosen.source, chosen.target) != (source, asked.target):
            raise RefusalError(
                400, f"{chosen.name} translates from {chosen.source} to {chosen.target}, nothing else"
            )
        return chosen
    translators = service.models.of("translate")
    if not translators:
        raise RefusalError(404, "no model here translates")
    codes = {code for one in translators for code in (one.source, one.target)}
    for code in (source, asked.target):
        if code not in codes:
            raise RefusalError(
                400, f"{_short(code)} is not supported; the languages here are {', '.join(sorted(codes))}"
            )
    if source == asked.target:
        return None
    for one in translators:
        if (one.source, one.target) == (source, asked.target):
            return one
    raise RefusalError(400, f"{asked.target} is not available as a target language from {source}")


async def translations(
    request: Request, served: Served, texts: Sequence[str], alternatives: int = 0
) -> list[list[str]]:
    """The best translation of each text and the alternatives, batched with those of other requests."""
    found = await written(request, served, texts, alternatives, linked=False)
    return [[one.text for one in own] for own in found]


async def written(
    request: Request, served: Served, texts: Sequence[str], alternatives: int, linked: bool
) -> list[list[Written]]:
    """The same as `translations`; with `linked`, each word is linked to its source word."""
    translator: Translator = served.model

    def compute(items: list[str], left: Left) -> list[list[Written]]:
        search = translator.unlike_each_other(alternatives) if alternatives else translator.beam()
        told = translator.translate(items, search=lambda most: abandonable(search(most), left), align=linked)
        return [
            [Written(one.text, links_of(item, one)) for one in own[: alternatives + 1]]
            for item, own in zip(items, told, strict=True)
        ]

    key = ("translate", alternatives, linked)
    return await service_of(request).computed(request, served, key, compute, texts)


def abandonable(strategy: Strategy, left: Left) -> Strategy:
    """The same strategy, stopped as soon as nobody waits for its results any more."""
    from throughtime.search import Watched

    def watch(moment: Moment) -> None:
        if left():
            raise AbandonedError

    return Watched(strategy, watch)


def _plain_texts(asked: TranslateRequest, texts: Sequence[str]) -> list[str]:
    """The texts to translate; of an HTML page only its sentences, without tags and code."""
    if asked.format == "text":
        return list(texts)
    return [" ".join(segment.text for segment in HtmlPage(text).segments) for text in texts]


def _best(service: Service, text: str) -> Guess:
    guesses = service.detector.guesses(text)
    if not guesses:
        raise RefusalError(400, "the languages here cannot be told apart; give the source language")
    return guesses[0]


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else f"{word[:40]}...")
