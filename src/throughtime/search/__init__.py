"""Search: run a model forward, token by token, with a strategy that never sees the model."""
