"""The fields of our own endpoints are the keywords of Python, with the same defaults."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from tests.keywords import keywords

from throughtime.inspection.next_tokens import next_tokens
from throughtime.serve.app import create_app
from throughtime.serve.forecasting import ForecastRequest
from throughtime.serve.insight import NextRequest
from throughtime.serve.models import Models
from throughtime.serve.prediction import ComposeRequest, build_request
from throughtime.serve.translation import TranslateRequest
from throughtime.tasks import TASKS, Task
from throughtime.tasks.classify.model import Classifier
from throughtime.tasks.compose.model import Composer
from throughtime.tasks.fill.model import Filler
from throughtime.tasks.forecast.model import SeriesForecaster
from throughtime.tasks.tag.model import Tagger
from throughtime.tasks.translate.model import Translator

INPUTS = {"q", "label", "vector", "series", "model"}
LIBRETRANSLATE = {"source", "target", "format", "alternatives", "api_key"}
router = APIRouter()


@pytest.mark.parametrize(
    ("request_type", "method"),
    [
        (build_request(TASKS["tag"]), Tagger.tag),
        (build_request(TASKS["classify"]), Classifier.classify),
        (build_request(TASKS["fill"]), Filler.fill),
        (ComposeRequest, Composer.compose),
        (ForecastRequest, SeriesForecaster.forecast),
        (NextRequest, next_tokens),
        (TranslateRequest, Translator.translate),
    ],
)
def test_request_fields_are_the_keywords_of_python(request_type, method):
    found = keywords(method)
    fields = {name: one for name, one in request_type.model_fields.items() if name not in INPUTS}
    if request_type is TranslateRequest:
        # A server takes no function as a search, so None stands for the name of the default.
        fields = {name: one for name, one in fields.items() if name not in LIBRETRANSLATE | {"search"}}
    assert fields.keys() <= found.keys()
    for name, field in fields.items():
        _, default = found[name]
        assert field.default == (list(default) if default == () else default), name


@router.post("/juggle")
async def juggle() -> str:
    return "done"


class Juggle(Task):
    name, title, summary = "juggle", "a juggler", "Train a juggler."
    route = f"{__name__}:router"


def test_a_task_of_another_package_brings_its_endpoint(monkeypatch):
    monkeypatch.setitem(TASKS._own, "juggle", f"{__name__}:Juggle")
    assert "/juggle" in create_app(Models([])).openapi()["paths"]
