"""Errors so many steps ahead: what cannot be asked for."""

from __future__ import annotations

import pytest

from throughtime.data.panel import Series, regular
from throughtime.errors import InputError
from throughtime.tasks.forecast import made
from throughtime.tasks.forecast_config import ForecastConfig


@pytest.mark.parametrize("steps", [(), (0,), (4, -1)])
def test_steps_are_some_of_one_or_more(steps, tmp_path):
    import throughtime as tt

    path = tmp_path / "wave.csv"
    path.write_text("y\n" + "".join(f"{step % 7}\n" for step in range(120)))
    data = tt.open_dataset(str(path))
    forecaster = made(ForecastConfig(data=str(path), model="linear", lookback=7, horizon=1), data)
    panel = regular([Series.of("wave", [float(step % 7) for step in range(120)])])
    with pytest.raises(InputError, match=r"steps: are \(.*\), expected some of 1 or more"):
        forecaster.k_step_errors(panel, steps)
