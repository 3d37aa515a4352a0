"""Translators in HTML files: how large the file is, how long it takes to open, and how long a sentence takes.

`python -m benchmarks.page RUN ...` exports each translator with int8 weights, opens the file in the system's
Chromium and translates sentences with a beam of four, one at a time, by WebAssembly and in plain JavaScript.
Each sentence counts with its fastest round, as other work on the machine only makes it slower.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import throughtime as tt
from throughtime.cli.demo import NEW

ROUNDS = 10
MEASURE = """async ([sentences, about, plain, rounds]) => {
  const parts = globalThis.throughtimeParts;
  const worker = new Worker(URL.createObjectURL(new Blob([parts.worker])));
  const waiting = new Map();
  worker.onmessage = ({ data }) => waiting.get(data.id)(data);
  const ask = (path, body) => new Promise((resolve) => {
    const id = waiting.size;
    waiting.set(id, resolve);
    worker.postMessage({ id, path, body });
  });
  const blocks = [...document.querySelectorAll('script[data-part="model"]')].map((one) => one.textContent);
  const begun = performance.now();
  worker.postMessage({ open: { blocks, products: parts.products, plain } });
  await ask("models", null);
  const opened = performance.now() - begun;
  const times = sentences.map(() => Infinity);
  for (let round = 0; round < rounds; round += 1) {
    for (const [place, q] of sentences.entries()) {
      const before = performance.now();
      const { problem } = await ask("translate", { q, ...about, num_beams: 4 });
      if (problem) throw new Error(problem);
      times[place] = Math.min(times[place], performance.now() - before);
    }
  }
  worker.terminate();
  return { opened, times };
}"""


def run(runs: list[str]) -> dict[str, Any]:
    """Measure these runs, print a table and return the figures."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    found = {}
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as name:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for number, one in enumerate(runs):
            model = tt.load(one, device="cpu")
            out = Path(name) / f"{number}.html"
            sizes = model.export(out, format="html")
            found[one] = {"weights": model.num_weights, "bytes": sizes["bytes"], "page": sizes["page_bytes"]}
            about = {"source": model.config.source, "target": model.config.target}
            for plain in (False, True):
                page = browser.new_page()
                page.goto(out.as_uri())
                page.wait_for_function("globalThis.throughtimeParts")
                told = page.evaluate(MEASURE, [list(NEW), about, plain, ROUNDS])
                kind = "plain" if plain else "simd"
                found[one][kind] = {"opened": told["opened"], "sentence": statistics.mean(told["times"])}
                page.close()
            print(
                f"{one}: {found[one]['weights'] / 1e6:.2f} M weights, {sizes['bytes'] / 1e6:.2f} MB, of "
                f"which page and runner {sizes['page_bytes'] / 1e3:.0f} kB"
            )
            for kind in ("simd", "plain"):
                own = found[one][kind]
                print(f"  {kind}: opens in {own['opened']:.0f} ms, {own['sentence']:.1f} ms a sentence")
        browser.close()
    return found


if __name__ == "__main__":
    run(sys.argv[1:])
