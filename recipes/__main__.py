"""`python -m recipes [NAME ...]`: run the recipes, write what was measured into RESULTS.md.

A recipe whose corpus is not on this machine is skipped with its reason; its last figure stays.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sys
import tempfile
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from throughtime.cli.main import main as throughtime
from throughtime.files import whole_file
from throughtime.version import __version__

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
RESULTS = HERE.parent / "RESULTS.md"


def main() -> int:
    """Run those named, or all."""
    recipes = {path.stem: tomllib.loads(path.read_text()) for path in sorted(HERE.glob("*.toml"))}
    wanted = sys.argv[1:] or list(recipes)
    if wrong := [name for name in wanted if name not in recipes]:
        print(f"error: unknown recipe {wrong[0]!r}; known: {', '.join(recipes)}.", file=sys.stderr)
        return 2
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    for name in wanted:
        print(f"== {name}", file=sys.stderr)
        if (row := measure(recipes[name])) is not None:
            measured[name] = row
    with whole_file(MEASURED) as file:
        json.dump(measured, file, indent=2, sort_keys=True)
        file.write("\n")
    with whole_file(RESULTS) as file:
        file.write(report(recipes, measured))
    return 0


def measure(recipe: dict[str, Any]) -> dict[str, Any] | None:
    """Train, evaluate, and say on what; None where the recipe cannot run here."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        code, trained = run(["train", *recipe["train"], "--out", f"{folder}/run", "--json"])
        seconds = time.perf_counter() - began
        if code:
            print(f"skipped: {trained['error']}", file=sys.stderr)
            return None
        code, judged = run(["evaluate", f"{folder}/run", *recipe["evaluate"], "--json"])
    if code:
        print(f"skipped: {judged['error']}", file=sys.stderr)
        return None
    return {
        "value": judged[recipe["measure"]],
        "signature": judged["signature"],
        "seconds": round(seconds, 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
    }


def run(words: list[str]) -> tuple[int, dict[str, Any]]:
    """One command, as the terminal would run it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = throughtime(words)
    return code, json.loads(out.getvalue())


def report(recipes: dict[str, Any], measured: dict[str, Any]) -> str:
    """RESULTS.md."""
    rows = []
    for name, recipe in recipes.items():
        if name not in measured:
            continue
        row = measured[name]
        rows.append(
            f"| {recipe['title']} | {row['value']:.2f} | {recipe.get('published', '-')} | "
            f"{row['seconds']} s, {row['machine']}, {row['date']} | "
            f"`throughtime train {' '.join(recipe['train'])}` |"
        )
    table = "\n".join(rows)
    return f"""# Results

Every figure was measured by `make results` (one recipe: `python -m recipes NAME`), which writes this page.
Corpora are found through `THROUGHTIME_DATA`, or fetched; see `throughtime data list`. Choices are made on
validation data; test is read once, at the end. Counted models have no seed.

## Perplexity of counted language models

| what | measured | published | trained in, on, at | command |
|---|---|---|---|---|
{table}
"""


if __name__ == "__main__":
    sys.exit(main())
