"""Text from a label or a vector of numbers."""
