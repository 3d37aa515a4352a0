"""Programs that keep the project in order; none of them is installed."""
