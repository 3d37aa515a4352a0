"""CUDA kernels as source text, compiled where they run with the compiler that comes with torch."""
