"""Pictures of learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from throughtime.plots.learning import learning_plot, rate_plot


def lines(epochs: int, top: float, bottom: float, until: float = 1.0) -> list[dict[str, Any]]:
    """Metrics of epochs of 100 steps whose perplexity falls from top to bottom, worst at the very end."""
    made: list[dict[str, Any]] = []
    for step in range(20, int(100 * epochs * until) + 1, 20):
        value = top * (bottom / top) ** (step / 100 / epochs)
        epoch = (step - 1) // 100 + 1
        made.append({"kind": "train", "step": step, "epoch": epoch, "perplexity": value, "lr": 1 / step})
        if step % 100 == 0:
            worse = 4.0 if epoch == epochs else 1.1
            made.append({"kind": "valid", "step": step, "epoch": epoch, "perplexity": worse * value})
    return made


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    figures: list[Any] = []
    monkeypatch.setattr("throughtime.plots.learning.save", lambda drawing, path: figures.append(drawing))
    return figures


def test_the_picture_is_written(tmp_path: Path) -> None:
    path = learning_plot(lines(4, 900, 5), tmp_path / "learning.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert rate_plot([1e-3, 1e-2], [2.0, 1.0], 1e-2, tmp_path / "rate.png").stat().st_size > 1000


def test_curves_lie_on_the_epochs_and_the_best_is_marked(tmp_path: Path, drawn: list[Any]) -> None:
    learning_plot(lines(5, 900, 5), tmp_path / "learning.png")
    axes, below = drawn[0].axes
    train, valid = axes.lines[0], axes.lines[1]
    np.testing.assert_allclose(train.get_xdata(), np.arange(0.2, 5.01, 0.2))
    np.testing.assert_allclose(valid.get_xdata(), [1, 2, 3, 4, 5])
    assert axes.get_yscale() == "log"
    best = 1.1 * 900 * (5 / 900) ** 0.8
    assert axes.lines[2].get_xydata()[0].tolist() == pytest.approx([4, best])
    assert axes.texts[0].get_text() == f"best {best:.4g}"
    assert axes.get_title(loc="left") == f"Best validation perplexity {best:.4g}, after epoch 4"
    np.testing.assert_allclose(below.lines[0].get_ydata(), [1 / step for step in range(20, 501, 20)])


def test_less_than_a_decade_has_an_even_axis(tmp_path: Path, drawn: list[Any]) -> None:
    learning_plot(lines(5, 12, 5), tmp_path / "learning.png")
    assert drawn[0].axes[0].get_yscale() == "linear"


def test_an_unfinished_epoch_is_not_stretched(tmp_path: Path, drawn: list[Any]) -> None:
    learning_plot(lines(5, 12, 5, until=0.7), tmp_path / "learning.png")
    assert drawn[0].axes[0].lines[0].get_xdata()[-1] == pytest.approx(3.4)


def test_null_is_left_out_and_nothing_at_all_can_be_drawn(tmp_path: Path, drawn: list[Any]) -> None:
    learning_plot([], tmp_path / "learning.png")
    some = lines(1, 12, 5)
    some[1]["perplexity"] = None
    learning_plot(some, tmp_path / "learning.png")
    assert len(drawn[1].axes[0].lines[0].get_xdata()) == 4
    learning_plot([line for line in some if line["kind"] == "train"], tmp_path / "learning.png")
    assert [text.get_text() for text in drawn[2].axes[0].get_legend().get_texts()] == ["training"]


def test_an_explosion_does_not_flatten_the_search_for_a_rate(tmp_path: Path, drawn: list[Any]) -> None:
    rates = np.geomspace(1e-5, 1, 50)
    losses = [*np.linspace(5, 4, 45), 9.0, 1e6, 1e9, float("inf"), float("nan")]
    rate_plot(list(rates), losses, 1e-3, tmp_path / "rate.png")
    (axes,) = drawn[0].axes
    low, high = axes.get_ylim()
    assert low < 4 < 5 < high < 6
    assert axes.get_xscale() == "log"
    assert axes.lines[1].get_xdata()[0] == 1e-3
    assert "0.001" in axes.get_title(loc="left")
