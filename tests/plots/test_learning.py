"""Pictures of learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from throughtime import plots


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


def test_curves_lie_on_the_epochs_and_the_best_is_marked() -> None:
    drawn: list[Any] = [plots.learning_curve(lines(5, 900, 5))]
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


def test_what_training_reports_is_drawn_below() -> None:  # R117
    some = [
        {**line, "gradient_norm": 10.0 / line["step"], "clipped": 0.25, "tokens_per_second": 5e4}
        if line["kind"] == "train"
        else line
        for line in lines(5, 12, 5)
    ]
    drawn: list[Any] = [plots.learning_curve(some)]
    _, rates, norms, clipped, speeds = drawn[0].axes
    assert [axes.get_ylabel() for axes in (norms, clipped, speeds)] == [
        "gradient\nnorm",
        "clipped",
        "tokens/s",
    ]
    assert rates.lines[0].get_ydata().tolist() == [1 / step for step in range(20, 501, 20)]
    assert norms.lines[0].get_ydata().tolist() == [10.0 / step for step in range(20, 501, 20)]
    assert set(clipped.lines[0].get_ydata()) == {0.25}
    assert set(speeds.lines[0].get_ydata()) == {5e4}


def test_an_unfinished_epoch_is_not_stretched() -> None:
    drawn: list[Any] = [plots.learning_curve(lines(5, 12, 5, until=0.7))]
    assert drawn[0].axes[0].lines[0].get_xdata()[-1] == pytest.approx(3.4)


def test_what_training_alone_measures_is_drawn_too() -> None:
    drawn: list[Any] = []
    made = [
        {"kind": "train", "step": 9, "epoch": 1, "loss": 0.7, "nats_per_word": 0.7, "lr": 0.1},
        {"kind": "epoch", "step": 9, "epoch": 1, "train_nats_per_word": 0.7},
        {"kind": "valid", "step": 9, "epoch": 1, "accuracy": 0.5},
    ]
    drawn.append(plots.learning_curve(made, "accuracy", "more"))
    between = drawn[0].axes[1]
    assert (between.get_ylabel(), len(between.lines)) == ("nats per word", 1)
    assert between.lines[0].get_xydata().tolist() == [[1, 0.7]]


def short_epochs() -> list[dict[str, Any]]:
    """Epochs of 17 updates with a look every 50: that of epoch 3 falls before its last update."""
    made: list[dict[str, Any]] = []
    for epoch, looks in enumerate([[(17, 0.3)], [(34, 0.2)], [(50, 0.12), (51, 0.14)]], 1):
        for step, loss in looks:
            made.append({"kind": "train", "step": step, "epoch": epoch, "loss": loss, "pinball": loss})
        told = {1: 0.3, 2: 0.2, 3: 0.1292}[epoch]
        made.append({"kind": "epoch", "step": 17 * epoch, "epoch": epoch, "train_pinball": told})
        made.append({"kind": "valid", "step": 17 * epoch, "epoch": epoch, "loss": 0.3, "pinball": 0.3})
    return made


def test_short_epochs_are_drawn_with_the_figures_that_are_told_of_them() -> None:
    drawn: list[Any] = [plots.learning_curve(short_epochs(), "pinball")]
    drawn.append(plots.learning_curve(short_epochs(), "loss"))
    told, loss = (drawing.axes[0].lines[0].get_xydata() for drawing in drawn)
    np.testing.assert_allclose(told, [[1, 0.3], [2, 0.2], [3, 0.1292]])
    np.testing.assert_allclose(loss, [[1, 0.3], [2, 0.2], [50 / 17, 0.12], [3, 0.14]])


def test_null_is_left_out_and_nothing_at_all_can_be_drawn() -> None:
    drawn: list[Any] = [plots.learning_curve([])]
    some = lines(1, 12, 5)
    some[1]["perplexity"] = None
    drawn.append(plots.learning_curve(some))
    assert len(drawn[1].axes[0].lines[0].get_xdata()) == 4
    drawn.append(plots.learning_curve([line for line in some if line["kind"] == "train"]))
    assert [text.get_text() for text in drawn[2].axes[0].get_legend().get_texts()] == ["training"]
