"""Export models as graphs that run without torch."""
