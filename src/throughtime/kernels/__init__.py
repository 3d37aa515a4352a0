"""CUDA kernels as text, compiled on the machine that runs them by the compiler torch brings along."""
