"""The fields of our own endpoints are the keywords of Python, with the same defaults."""

from __future__ import annotations

import inspect

import pytest
from fastapi import APIRouter

from throughtime.inspection.next_tokens import next_tokens
from throughtime.runtime.search import WritingOptions
from throughtime.serve.app import create_app
from throughtime.serve.forecasting import ForecastRequest
from throughtime.serve.insight import NextRequest
from throughtime.serve.models import Models
from throughtime.serve.prediction import ClassifyRequest, ComposeRequest, FillRequest, TagRequest
from throughtime.tasks import TASKS, Task
from throughtime.tasks.classify.predictor import Classifier
from throughtime.tasks.compose.predictor import Composer
from throughtime.tasks.fill.predictor import Filler
from throughtime.tasks.forecast.predictor import SeriesForecaster
from throughtime.tasks.tag.predictor import Tagger

INPUTS = {"q", "label", "vector", "series", "model"}
router = APIRouter()


@pytest.mark.parametrize(
    ("request_type", "method"),
    [
        (TagRequest, Tagger.tag),
        (ClassifyRequest, Classifier.classify),
        (FillRequest, Filler.fill),
        (ComposeRequest, Composer.compose),
        (ForecastRequest, SeriesForecaster.forecast),
        (NextRequest, next_tokens),
    ],
)
def test_request_fields_are_the_keywords_of_python(request_type, method):
    keywords = dict(inspect.signature(method).parameters)
    fields = {name: one for name, one in request_type.model_fields.items() if name not in INPUTS}
    if keywords.pop("options", None):  # those of `WritingOptions`, of which None is as good as nothing
        for name in WritingOptions.__annotations__.keys() & fields.keys():
            assert fields.pop(name).default == (1 if name == "num_return_sequences" else None), name
    assert fields.keys() <= keywords.keys()
    for name, field in fields.items():
        default = keywords[name].default
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
