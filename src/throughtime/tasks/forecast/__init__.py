"""The future of time series."""
