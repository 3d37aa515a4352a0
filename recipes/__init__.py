"""One file a result: what to run, and the published figure beside it."""
