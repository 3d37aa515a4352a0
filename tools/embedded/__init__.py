"""The grammar that writes the embedded sentence pairs: run `python -m tools.embedded` after changing it."""
