"""Pictures of what is inside a model: the tree of a search, a map of tokens, gates of trained layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.refusals import refuses

from throughtime import plots
from throughtime.inspection.embeddings import EmbeddingMap, Point
from throughtime.inspection.gates import LayerGates
from throughtime.inspection.translation import BeamTree, Candidate, TranslationResult
from throughtime.plots.style import INK
from throughtime.results import Alignment, Translation

TREE = BeamTree(
    "go", 2, 0.75,
    (
        Candidate(1, None, "va", "va", 0.6, -0.5, -0.5, "kept", "one of the 2 best", best=True),
        Candidate(1, None, "allez", "allez", 0.3, -1.2, -1.2, "kept", "one of the 2 best"),
        Candidate(1, None, "non", "non", 0.1, -2.3, -2.3, "cut", "not among the 2 best"),
        Candidate(2, 0, "", "⟨end⟩", 0.9, -0.6, -0.4, "ended", "a whole translation", best=True),
        Candidate(2, 1, "", "⟨end⟩", 0.4, -2.1, -1.3, "ended", "a whole translation"),
    ),
    (TranslationResult("va", -0.4, -0.6, True, 3),),
)  # fmt: skip
GENERATOR = np.random.default_rng(0)
LSTM = LayerGates(
    "layer 1", "LSTM", ("she", "reads"),
    {"h": GENERATOR.normal(size=(2, 6)).astype(np.float32), "f": GENERATOR.random((2, 6)).astype(np.float32),
     "tanh c": GENERATOR.normal(size=(2, 6)).astype(np.float32)}, "f",
)  # fmt: skip
RNN = LayerGates("layer 2", "RNN", ("she", "reads"), {"h": LSTM.values["h"]}, None)


def test_every_token_of_a_search_is_drawn_and_what_was_cut_is_struck_out() -> None:
    axes: Any
    [axes] = plots.beam(TREE).axes
    words = [text.get_text() for text in axes.texts]
    assert {"va", "allez", "non ✕", "⟨end⟩"} <= set(words)
    assert "beam of 2" in axes.get_title(loc="left")
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    assert len({colours["va"], colours["allez"], colours["non ✕"]}) == 3
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert heights["va"] < heights["allez"] < heights["non ✕"]  # rows count downwards


def test_the_scale_of_attention_is_named_in_full_beside_a_single_row() -> None:
    drawing = plots.attention((["go", "⟨end⟩"], ["⟨end⟩"], [[0.9, 0.1]]))
    label = drawing.axes[1].yaxis.label.get_window_extent()
    assert label.y0 >= 0
    assert label.y1 <= drawing.bbox.height


def test_attention_of_a_list_of_answers_is_refused() -> None:
    with refuses("answer"):
        plots.attention([])  # type: ignore[arg-type]


def test_attention_is_drawn_of_an_answer_and_of_its_alignment() -> None:
    alignment = Alignment(("go", "⟨end⟩"), ("va", "⟨end⟩"), ((0.9, 0.1), (0.2, 0.8)))
    for answer in (Translation("va", -0.1, -0.1, True, alignment), alignment):
        picture: Any = plots.attention(answer).axes[0]
        assert [label.get_text() for label in picture.get_yticklabels()] == ["va", "⟨end⟩"]
        assert [text.get_text() for text in picture.texts] == ["0.90", "0.80"]
    with refuses("answer", "align=True"):
        plots.attention(Translation("va", -0.1, -0.1, True))


def test_a_notebook_shows_a_figure_with_its_style_and_pyplot_keeps_none() -> None:
    from matplotlib import pyplot

    drawing: Any = plots.learning_rates([1e-3, 1e-2], [2.0, 1.0], 1e-2)
    assert drawing._repr_png_().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []
    assert {label.get_color() for label in drawing.axes[0].get_xticklabels()} == {INK}


def test_words_of_the_sentence_stand_out_on_the_map() -> None:
    points = (Point("cat", 0.0, 0.0, True, (1,)), Point("dog", 1.0, 0.5, False, ()))
    axes: Any
    [axes] = plots.embedding(EmbeddingMap("tokens", (), points, 0.8)).axes
    cat, dog = axes.texts
    assert (cat.get_text(), dog.get_text()) == ("cat", "dog")
    assert cat.get_fontweight() == "bold" != dog.get_fontweight()
    assert "80%" in axes.get_xlabel()


def panels(drawing: Any) -> list[Any]:
    """The heat maps, without their scales."""
    return [axes for axes in drawing.axes if axes.images and axes.get_ylabel()]


def test_units_stand_in_the_order_of_their_memory() -> None:
    first, second = panels(plots.keep_gates([LSTM, RNN], title="she reads"))
    np.testing.assert_allclose(first.images[0].get_array(), LSTM.values["f"][:, LSTM.order].T)
    assert first.images[0].get_clim() == (0, 1)
    assert first.get_ylabel() == "half-life in tokens"
    low, high = second.images[0].get_clim()
    assert low == -high
    assert [label.get_text() for label in second.get_xticklabels()] == ["she", "reads"]


def test_all_gates_of_a_layer_but_what_is_told_twice() -> None:
    titles = [axes.get_title(loc="left") for axes in panels(plots.layer_gates(LSTM))]
    assert titles == ["f, 1 keeps the state", "h"]
