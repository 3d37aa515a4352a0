"""Data, model, loss and measure brought together."""
