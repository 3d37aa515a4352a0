"""`python -m benchmarks [NAME ...]`: run all benchmarks, or those named; `--json` prints one object."""

from __future__ import annotations

import importlib
import json
import platform
import sys

NAMES = (
    "ngram",
    "kenlm",
    "ngram_memory",
    "ids_memory",
    "recurrence_cpu",
    "recurrence_gpu",
    "softmax_gpu",
    "decoding_gpu",
    "tasks_gpu",
    "long_sequence",
    "language_cpu",
    "translate_cpu",
    "export",
    "serve",
    "defaults",
)


def main() -> int:
    """Run and print."""
    words = [word for word in sys.argv[1:] if word != "--json"]
    if "--help" in words or "-h" in words:
        print(f"{__doc__}\n\nBenchmarks: {', '.join(NAMES)}.")
        return 0
    if wrong := [word for word in words if word not in NAMES]:
        print(f"error: unknown benchmark {wrong[0]!r}; known: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    results = {"machine": platform.machine(), "python": platform.python_version()}
    for name in words or NAMES:
        print(f"== {name}", file=sys.stderr)
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
    if "--json" in sys.argv:
        print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
