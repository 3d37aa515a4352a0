"""Counted language models."""
