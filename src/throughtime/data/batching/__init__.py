"""Batches of ids and of series: seeded, resumable at any batch, and shared among any number of processes."""
