"""A tag for every word."""
