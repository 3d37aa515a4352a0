"""The wing for NVIDIA GPUs: kernels, persistent recurrences, recorded searches and updates.

Only `throughtime.accelerate` imports it, and only on a machine with such a GPU.
"""
