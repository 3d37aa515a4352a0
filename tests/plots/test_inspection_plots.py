"""Pictures of what is inside a model: the tree of a search, a map of tokens, gates of trained layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from throughtime.inspection.beam_tree import BeamTree, Result, Weighed
from throughtime.inspection.gates import LayerGates
from throughtime.inspection.neighbours import EmbeddingMap, Point
from throughtime.plots.attention import attention_plot
from throughtime.plots.beam import beam_plot
from throughtime.plots.embedding import embedding_plot
from throughtime.plots.unit_gates import layer_plot, remembering_plot

TREE = BeamTree(
    "go", 2, 0.75,
    (
        Weighed(1, None, "va", "va", 0.6, -0.5, -0.5, "kept", "one of the 2 best", best=True),
        Weighed(1, None, "allez", "allez", 0.3, -1.2, -1.2, "kept", "one of the 2 best"),
        Weighed(1, None, "non", "non", 0.1, -2.3, -2.3, "cut", "not among the 2 best"),
        Weighed(2, 0, "", "⟨end⟩", 0.9, -0.6, -0.4, "ended", "a whole translation", best=True),
        Weighed(2, 1, "", "⟨end⟩", 0.4, -2.1, -1.3, "ended", "a whole translation"),
    ),
    (Result("va", -0.4, -0.6, True, 3),),
)  # fmt: skip
GENERATOR = np.random.default_rng(0)
LSTM = LayerGates(
    "layer 1", "LSTM", ("she", "reads"),
    {"h": GENERATOR.normal(size=(2, 6)).astype(np.float32), "f": GENERATOR.random((2, 6)).astype(np.float32),
     "tanh c": GENERATOR.normal(size=(2, 6)).astype(np.float32)}, "f",
)  # fmt: skip
RNN = LayerGates("layer 2", "RNN", ("she", "reads"), {"h": LSTM.values["h"]}, None)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that would have been written."""
    drawn: list[Any] = []
    for module in ("attention", "beam", "embedding", "unit_gates"):
        monkeypatch.setattr(f"throughtime.plots.{module}.save", lambda drawing, path: drawn.append(drawing))
    return drawn


def test_every_token_of_a_search_is_drawn_and_what_was_cut_is_struck_out(kept: list[Any]) -> None:
    beam_plot(TREE, "b.png")
    [axes] = kept[0].axes
    words = [text.get_text() for text in axes.texts]
    assert {"va", "allez", "non ✕", "⟨end⟩"} <= set(words)
    assert "beam of 2" in axes.get_title(loc="left")
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    assert len({colours["va"], colours["allez"], colours["non ✕"]}) == 3
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert heights["va"] < heights["allez"] < heights["non ✕"]  # rows count downwards


def test_the_key_of_a_search_tells_what_is_drawn(kept: list[Any]) -> None:
    beam_plot(TREE, "b.png")
    [axes] = kept[0].axes
    tokens = [text for text in axes.texts if text.get_bbox_patch() is not None]
    framed = [one.get_text() for one in tokens if one.get_bbox_patch().get_edgecolor()[3] > 0]
    assert framed == ["⟨end⟩", "⟨end⟩"]
    handles = {one.get_label(): one for one in axes.get_legend().legend_handles}
    assert list(handles) == ["the best", "kept", "ended", "cut ✕"]
    lines = {handles[name].get_color() for name in ("the best", "kept", "cut ✕")}
    assert {one.get_color() for one in tokens} == lines
    assert handles["ended"].get_edgecolor()[3] > 0
    assert {"−0.50", "−2.10"} <= {text.get_text() for text in axes.texts}
    assert "score −0.40" in axes.get_title(loc="left")


def test_attention_has_a_title_and_its_shades_a_scale(kept: list[Any]) -> None:
    attention_plot(["go", "⟨end⟩"], ["va", "⟨end⟩"], [[0.9, 0.1], [0.2, 0.8]], "a.png")
    picture, bar = kept[0].axes
    assert picture.get_title(loc="left") == "What each word looked at"
    assert bar.get_ylabel() == "share of its attention"
    assert bar.get_ylim() == picture.images[0].get_clim() == (0, 1)
    assert [text.get_text() for text in picture.texts] == ["0.90", "0.80"]


def test_the_scale_of_attention_is_named_in_full_beside_a_single_row(kept: list[Any]) -> None:
    attention_plot(["go", "⟨end⟩"], ["⟨end⟩"], [[0.9, 0.1]], "a.png")
    kept[0].draw_without_rendering()
    label = kept[0].axes[1].yaxis.label.get_window_extent()
    assert label.y0 >= 0
    assert label.y1 <= kept[0].bbox.height


def test_words_of_the_sentence_stand_out_on_the_map(kept: list[Any]) -> None:
    points = (Point("cat", 0.0, 0.0, True, (1,)), Point("dog", 1.0, 0.5, False, ()))
    embedding_plot(EmbeddingMap("tokens", (), points, 0.8), "e.png")
    [axes] = kept[0].axes
    cat, dog = axes.texts
    assert (cat.get_text(), dog.get_text()) == ("cat", "dog")
    assert cat.get_fontweight() == "bold" != dog.get_fontweight()
    assert "80%" in axes.get_xlabel()


def test_units_stand_in_the_order_of_their_memory(kept: list[Any]) -> None:
    remembering_plot([LSTM, RNN], "g.png", "she reads")
    first, second = (axes for axes in kept[0].axes if axes.images and axes.get_ylabel())
    np.testing.assert_allclose(first.images[0].get_array(), LSTM.values["f"][:, LSTM.order].T)
    assert first.images[0].get_clim() == (0, 1)
    assert first.get_ylabel() == "half-life in tokens"
    low, high = second.images[0].get_clim()
    assert low == -high
    assert [label.get_text() for label in second.get_xticklabels()] == ["she", "reads"]


def test_all_gates_of_a_layer_but_what_is_told_twice(kept: list[Any]) -> None:
    layer_plot(LSTM, "g.png")
    titles = [axes.get_title(loc="left") for axes in kept[0].axes if axes.images and axes.get_ylabel()]
    assert titles == ["f, forget gate: 1 keeps", "h, state"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_files_are_whole_pictures(tmp_path: Path, kind: str) -> None:
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind]
    assert beam_plot(TREE, tmp_path / f"b.{kind}").read_bytes().startswith(beginning)
