"""Measures by name, of our own and of other packages."""

from __future__ import annotations

from tests.refusals import refuses

from throughtime.config import build_config
from throughtime.metrics.bleu import corpus_chrf, corpus_ter
from throughtime.metrics.measures import MEASURES, Measure, compute_measures, find_measure
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.translate.config import TranslateConfig

EQUAL = Measure(lambda given, right: {"equal": sum(map(str.__eq__, given, right)) / len(right)})
GIVEN, RIGHT = ["the cat sat", "a dog"], ["the cat sat down", "a dog"]


def test_values_are_those_of_the_functions():
    found = compute_measures(["chrf", "ter"], "translate", GIVEN, RIGHT)
    assert found == {"chrf": corpus_chrf(GIVEN, RIGHT).value, "ter": corpus_ter(GIVEN, RIGHT).value}
    assert MEASURES["ter"].better == "less"


def test_a_measure_is_refused_where_it_does_not_fit():
    with refuses("measure", "'ter'", "translate", "classify"):
        find_measure("ter", "classify")
    with refuses("measure", "'tre'", "'ter'"):
        find_measure("tre", "translate")


def test_the_first_value_decides_and_nothing_gives_zero():
    both = Measure(lambda given, right: {"a": 1.0, "b": 2.0})
    assert both.value(GIVEN, RIGHT) == 1
    assert both.value([], []) == 0


def test_settings_choose_by_any_measure():
    assert build_config(TranslateConfig, {"data": "x", "choose_by": "chrf"}, "settings").choose_by == "chrf"
    for config in (TranslateConfig, ClassifyConfig):
        with refuses("choose_by", "'blue'"):
            build_config(config, {"data": "x", "choose_by": "blue"}, "settings")
