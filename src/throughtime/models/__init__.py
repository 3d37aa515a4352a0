"""Whole models: embedding, layers and a head."""
