"""Time series: panels, scaling, conformal intervals, back-tests and simple baselines."""
