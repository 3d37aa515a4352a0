"""Programs for developing the project; they are not installed."""
