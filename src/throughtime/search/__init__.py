"""A model run forward, token by token."""
