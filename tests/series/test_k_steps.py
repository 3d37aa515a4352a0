"""Every row predicted from k rows before it: fed with its own outputs, on the same rows for each k."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_panel, read_series_panel
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.model import SeriesForecaster

SETTINGS = {"model": "linear", "head": "point", "lookback": 2, "normalise": "none", "scaling": "none"}


@pytest.fixture
def doubling(tmp_path) -> tuple[SeriesForecaster, Panel]:
    """A recursive model of twice the last value, and a series of 0, 1, 2, ... with one missing."""
    import throughtime as tt

    path = tmp_path / "steps.csv"
    path.write_text("y\n" + "".join(f"{'nan' if row == 30 else row}\n" for row in range(40)))
    dataset = tt.open_dataset(str(path))
    config = ForecastConfig(
        data=str(path), **SETTINGS, strategy="recursive", horizon=1, valid_size=5, test_size=5
    )
    forecaster = SeriesForecaster.create(config, dataset)
    with torch.no_grad():
        weight, bias = forecaster.model.parameters()
        weight.copy_(torch.tensor([[0.0, 2.0]]))
        bias.zero_()
    return forecaster, read_series_panel(dataset, config.roles)


def test_a_model_is_fed_with_its_own_outputs(doubling) -> None:  # R4
    forecaster, panel = doubling
    found = forecaster.k_steps(panel, (1, 3))
    [one] = found.series
    # k rows before row t the last known value is t - k, which is doubled k times.
    rows = np.arange(40.0)
    for step, predictions in one.predictions.items():
        known = np.where(rows - step == 30, 29, rows - step)  # the missing row repeats the one before
        expected = 2.0**step * known
        assert np.isnan(predictions[: step + 1]).all()  # nothing to look back on
        there = ~np.isnan(predictions)
        np.testing.assert_allclose(predictions[there], expected[there])
        assert there[step + 1 + 1 :].sum() >= 40 - step - 3
    # Held out are the rows 30 to 39, of which the first has no value.
    assert one.tested == range(30, 40)
    assert found.rows == 9
    errors = {step: one.predictions[step][31:] - rows[31:] for step in (1, 3)}
    for step, own in errors.items():
        assert found.rmse[step] == pytest.approx(np.sqrt(np.mean(own**2)))
    assert found.to_dict()["rmse"] == {"1": found.rmse[1], "3": found.rmse[3]}
    assert forecaster.k_steps(panel, (1,), split="test").rows == 5
    assert forecaster.k_steps(steps=(3, 1, 3)).rmse == found.rmse


def test_errors_are_printed_a_line_for_each_k(doubling) -> None:
    model, panel = doubling
    found = model.k_steps(panel, [1, 2], split="all")
    assert str(found).splitlines()[0] == f"errors over {found.rows} rows"
    assert [line.split()[0] for line in str(found).splitlines()[1:]] == ["k", "1", "2"]


def test_every_k_is_measured_on_the_same_rows(doubling) -> None:
    forecaster, panel = doubling
    found = forecaster.k_steps(panel, (1, 20), split="all")
    assert found.rows == 40 - (2 + 20 - 1) - 1  # from the first row that all have, but for the missing one
    short = Panel((Series.of("a", np.arange(8.0)), *panel.series), None)
    both = forecaster.k_steps(short, (1, 20), split="all")
    assert both.rmse == pytest.approx(found.rmse)
    assert np.isnan(both.series[0].rmse[1])


@pytest.mark.parametrize(
    ("steps", "facts"),
    [((), ("1",)), ((0,), ("0",)), ((4, -1), ("-1",)), ((39,), ("39", "40"))],
)
def test_steps_that_cannot_be_are_refused(doubling, steps, facts) -> None:
    forecaster, panel = doubling
    with refuses("k_steps", *facts):
        forecaster.k_steps(panel, steps)


def test_a_direct_model_predicts_no_further_than_its_horizon(tmp_path) -> None:
    import throughtime as tt

    path = tmp_path / "wave.csv"
    path.write_text("y\n" + "".join(f"{step % 7 - 3}\n" for step in range(120)))
    forecaster = SeriesForecaster.create(
        ForecastConfig(data=str(path), **SETTINGS, horizon=3), tt.open_dataset(str(path))
    )
    panel = read_panel(path)
    found = forecaster.k_steps(panel, (3,))
    [told] = forecaster.predict(panel.drop_last(1), 3)
    [before] = forecaster.predict(panel.drop_last(3), 3)
    assert found.series[0].predictions[3][119] == pytest.approx(before.mean[2], rel=1e-5)
    assert told.mean[2] != before.mean[2]
    with refuses("k_steps", "4", "3"):
        forecaster.k_steps(panel, (1, 4))
