"""Measures of classification, judged by scikit-learn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from tests.refusals import refuses

from throughtime.metrics.classification import Confusion

LABELS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("bcde")), min_size=1, max_size=30)


@settings(deadline=None, max_examples=25)
@given(LABELS.filter(lambda pairs: len({label for pair in pairs for label in pair}) > 1))
def test_scikit_learn_agrees(pairs):
    right, given_labels = [one for one, _ in pairs], [other for _, other in pairs]
    found = Confusion.of(right, given_labels)
    names = list(found.labels)
    assert found.counts.tolist() == metrics.confusion_matrix(right, given_labels, labels=names).tolist()
    assert found.accuracy == pytest.approx(metrics.accuracy_score(right, given_labels))
    macro = metrics.f1_score(right, given_labels, average="macro", zero_division=0)
    assert found.macro_f1 == pytest.approx(macro)
    expected = metrics.precision_recall_fscore_support(right, given_labels, labels=names, zero_division=0)
    for place, own in enumerate(found.classes):
        got = (own.precision, own.recall, own.f1, own.support)
        assert got == pytest.approx(tuple(column[place] for column in expected))


def test_mistakes_are_counted():
    found = Confusion.of("aabb", "abbb")
    assert [one.label for one in found.classes] == ["a", "b"]
    assert found.list_mistakes() == [("a", "b", 1)]


def test_labels_must_belong_together():
    with refuses("labels", "1", "2"):
        Confusion.of("ab", "a")
