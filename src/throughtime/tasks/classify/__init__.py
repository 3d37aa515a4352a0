"""A label for a whole text."""
