"""Small translators, and what their searches must agree in."""

from __future__ import annotations

import pytest
import torch

from throughtime.search.beam import Beam
from throughtime.tasks.translate.network import build

END, CAP = 2, 12
PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10, 2], [4, 4], [5, 9]]


def network(preset="attention", seed=0, **options):
    torch.manual_seed(seed)
    return build(preset, 11, 13, bos_id=1, embedding_size=8, hidden_size=12, **options).double().eval()


def beam(**options):
    return Beam(END, 3, max_length=CAP, **options)


def same(found, expected, close=1e-9):
    def said(results):
        return [[(one.tokens, one.ended, one.path) for one in own] for own in results]

    assert said(found) == said(expected)
    for own, others in zip(found, expected, strict=True):
        assert [one.score for one in own] == pytest.approx([one.score for one in others], rel=close)
        assert [one.log_prob for one in own] == pytest.approx([one.log_prob for one in others], rel=close)
