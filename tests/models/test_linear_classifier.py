"""The linear classifier is that of scikit-learn, and its penalty one that suits rows that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from throughtime.models.linear_classifier import SparseRows, fit_chosen


def draw(rows, width=30, classes=3, noise=1.0):
    """Sparse rows, and labels that depend on some of their columns."""
    dice = np.random.default_rng(5)
    matrix = np.where(dice.random((rows, width)) < 0.3, dice.normal(size=(rows, width)), 0).astype(np.float32)
    true = dice.normal(size=(width, classes)) * (np.arange(width) < 8)[:, None]
    return matrix, (matrix @ true + noise * dice.gumbel(size=(rows, classes))).argmax(1)


def as_sparse(matrix):
    return SparseRows.of([(np.flatnonzero(row), row[np.flatnonzero(row)]) for row in matrix], matrix.shape[1])


@pytest.mark.parametrize("kind", [as_sparse, torch.from_numpy])
def test_it_is_the_classifier_of_scikit_learn(kind):
    matrix, labels = draw(300)
    fitted = fit_chosen(kind(matrix), torch.from_numpy(labels), 3, penalties=[2.0])
    peer = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(sparse.csr_matrix(matrix), labels)
    found = fitted.log_probs(kind(matrix)).exp().numpy()
    assert found == pytest.approx(peer.predict_proba(matrix), abs=2e-3)


@pytest.mark.parametrize(("noise", "least", "most"), [(0.2, 0.1, 3), (30.0, 100, 1e4)])
def test_noise_is_penalised(noise, least, most):
    matrix, labels = draw(400, noise=noise)
    penalties = [1e4, 1e3, 100.0, 10.0, 1.0, 0.1]
    fitted = fit_chosen(as_sparse(matrix), torch.from_numpy(labels), 3, penalties=penalties)
    assert least <= fitted.penalty <= most
