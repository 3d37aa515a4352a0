"""Tiny models and texts for readers to read."""

from __future__ import annotations

import pytest
import torch

from throughtime.models.language import RecurrentLanguageModel


@pytest.fixture
def double():
    """float64 for the length of a test, so that only a wrong formula can miss 1e-9."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def small():
    """A model of five tokens with weights large enough to have opinions."""

    def build(cell: str = "lstm", vocabulary_size: int = 5, **options: object) -> RecurrentLanguageModel:
        torch.manual_seed(0)
        sizes = {"embedding_size": 6, "hidden_size": 6, **options}
        model = RecurrentLanguageModel(vocabulary_size, cell=cell, **sizes).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0, 0.7)
        return model

    return build
