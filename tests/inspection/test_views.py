"""The views that a model is said to have are those that can be seen."""

from __future__ import annotations

import pytest
from tests.graphs import untrained

import throughtime as tt
from throughtime.errors import InputError
from throughtime.inspection import VIEWS, find_views
from throughtime.inspection.embeddings import embedding_map
from throughtime.inspection.gates import unit_gates
from throughtime.inspection.searches import compare_searches
from throughtime.inspection.translation import attention, beam_tree

SEE = {
    "attention": attention,
    "beam": beam_tree,
    "searches": compare_searches,
    "gates": unit_gates,
    "embedding": embedding_map,
}


def composer(folder, **settings):
    untrained.classifier(folder)  # for its data
    return untrained.saved(
        folder, "compose", folder / "labelled.csv", hidden_size=8, device="cpu", **settings
    )


@pytest.mark.parametrize(
    ("maker", "settings", "offered"),
    [
        (untrained.translator, {}, VIEWS),
        (untrained.translator, {"structure": "state-only", "tied": False}, VIEWS[1:]),
        (untrained.translator, {"cell": "rnn"}, ("attention", "beam", "searches", "embedding")),
        (untrained.language, {}, ("searches", "gates", "embedding")),
        (untrained.language, {"cell": "rnn-relu"}, ("searches", "embedding")),
        (untrained.filler, {}, ("gates", "embedding")),
        (untrained.tagger, {}, ("gates", "embedding")),
        (untrained.classifier, {}, ("gates", "embedding")),
        (untrained.forecaster, {}, ()),
        (composer, {}, ("embedding",)),
    ],
)
def test_a_model_has_the_views_that_it_says(tmp_path, maker, settings, offered):
    model = tt.load(maker(tmp_path, **settings), device="cpu")
    assert find_views(model) == list(offered)
    for view, see in SEE.items():
        if view in offered:
            see(model, "the cat")
        else:
            with pytest.raises(InputError):
                see(model, "the cat")
