"""What a type checker knows of models; `make lint` checks it, and nothing runs it.

The lines that are wrong must be found: mypy reports an ignored error that does not occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import throughtime as tt
from throughtime.api import Model
from throughtime.results import Classified, Evaluation, Forecast, Generated, Tagged, Translation
from throughtime.tasks.classify.model import Classifier
from throughtime.tasks.interpolation import InterpolatedLanguageModel
from throughtime.tasks.translate.model import Translator


def training_by_task() -> None:
    translator = tt.train("translate", "pairs.tsv", epochs=1, progress="none")
    assert_type(translator, Translator)
    assert_type(translator.translate("a cat", num_beams=3), list[Translation])
    assert_type(translator.translate(["a cat"])[0].alternatives, tuple[Translation, ...])


def loading_by_task() -> None:
    classifier = tt.load("runs/mails", task="classify")
    assert_type(classifier, Classifier)
    assert_type(classifier.classify(["hello"], k=2), list[Classified])
    assert_type(classifier.evaluate(split="test"), Evaluation)
    classifier.translate("hello")  # type: ignore[attr-defined]


def loading_any_task() -> None:
    model = tt.load("runs/any")
    assert_type(model, Model)
    assert_type(model.tag("a cat"), list[Tagged])
    assert_type(model.generate("the", temperature=0.8, num_return_sequences=2), list[Generated])
    assert_type(model.stream("the"), Iterator[str])
    assert_type(model.forecast(h=3, level=[80]), list[Forecast])
    model.generate("the", temprature=0.8)  # type: ignore[call-arg]


def interpolating() -> None:
    both = tt.interpolate(tt.load("runs/lstm", task="language"), tt.load("runs/6gram", task="ngram"))
    assert_type(both, InterpolatedLanguageModel)
    assert_type(both.generate("the", seed=1), list[Generated])
    assert_type(both.weights, tuple[float, ...])


def loading_by_a_name() -> None:
    name: str = "classify"
    assert_type(tt.load("runs/any", task=name), Any)
