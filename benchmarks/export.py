"""An exported translator beside the model that it was made of: speed, size, and what int8 costs in quality.

One sentence at a time, a beam of five, two threads: our own torch path (in float32 and as it searches by
itself), the runner in float32 and in int8, and the same model written with torch's own modules and the usual
beam loop. All have the same weights and take turns, so that a busy machine disturbs all alike; each one's
fastest round counts. `python -m benchmarks.export` prints a table and the targets; `--quick` takes fewer.

The usual loop stops as soon as five hypotheses have ended; ours goes on until no other can win, so it may
take more steps. The translator (Multi30k, English to German, a GRU of 512 with attention) is trained for some
minutes first; THROUGHTIME_TRANSLATOR names the folder of one that is there already. Perplexities are those of
a character model of the Time Machine.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

import throughtime as tt
from benchmarks.export_plain import PlainTranslator, beam_search
from throughtime.api import export
from throughtime.data.datasets import open_dataset
from throughtime.metrics.bleu import corpus_bleu
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator

THREADS, BEAMS = 2, 5
TARGETS = {"int8 / our torch path": 2.0, "int8 / nn modules": 4.0}
MAX_BLEU, MAX_PERPLEXITY = 0.3, 0.02


class Amount(NamedTuple):
    """How much is measured."""

    sentences: int  # of each round
    rounds: int
    judged: int  # sentences that BLEU is of


WHOLE, QUICK = Amount(50, 5, 1_000), Amount(10, 2, 100)


def run(quick: bool = False) -> dict[str, Any]:
    amount = QUICK if quick else WHOLE
    with tempfile.TemporaryDirectory() as name, threads(THREADS):
        folder = Path(name)
        translator = trained_translator(folder, quick)
        found = measure_translator(translator, folder, amount)
        found["perplexity"] = measure_language(folder, quick)
    table(found)
    return found


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def trained_translator(folder: Path, quick: bool) -> Path:
    if given := os.environ.get("THROUGHTIME_TRANSLATOR"):
        return Path(given)
    config = TranslateConfig(
        data="multi30k/tok",
        source="en",
        target="de",
        epochs=1 if quick else 3,
        valid_sentences=50,
        device="cpu",
    )
    dataset = open_dataset(config.data, source="en", target="de", download=False)
    made = Translator.create(config, dataset)
    made.fit(dataset, folder / "translator")
    return folder / "translator"


def measure_translator(path: Path, folder: Path, amount: Amount) -> dict[str, Any]:
    model = tt.load(path, device="cpu")
    assert isinstance(model, Translator)
    sizes = {}
    for precision in ("float32", "int8"):
        values = export(path, folder / precision, int8=precision == "int8")
        sizes[precision] = sum(values["bytes"].values())
    runners = {name: tt.runtime.load(folder / name, threads=THREADS) for name in ("float32", "int8")}
    config = model.config
    dataset = open_dataset(config.data, source=config.source, target=config.target, download=False)
    sources, targets = (list(dataset.texts("test", side))[: amount.judged] for side in ("source", "target"))
    systems = compared(model, runners)
    taken = in_turns(systems, sources[: amount.sentences], amount.rounds)
    bleu = {
        name: corpus_bleu([one.text for one in runner.translate(sources, num_beams=BEAMS)], targets).value
        for name, runner in runners.items()
    }
    same = [
        [own.text for own in one.translate(sources[: amount.sentences], num_beams=BEAMS)]
        for one in (in_float32(model), runners["float32"])
    ]
    return {
        "milliseconds": taken,
        "bytes": sizes,
        "weights": sum(weight.numel() for weight in model.model.parameters()),
        "bleu": bleu,
        "same as torch in float32": statistics.mean(one == two for one, two in zip(*same, strict=True)),
    }


def compared(model: Translator, runners: dict[str, Any]) -> dict[str, Callable[[str], Any]]:
    """All that translate one sentence, by name."""
    plain = PlainTranslator(model.model).eval()
    codecs, generation = model.codecs, model.generation
    own_precision = model.precision

    def ours(precision: str) -> Callable[[str], Any]:
        def translated(text: str) -> Any:
            model.precision = precision
            return model.translate([text], num_beams=BEAMS)

        return translated

    def written_plainly(text: str) -> str:
        prompt = codecs.prompt(text)
        most = 16 * (2 * -(-len(prompt) // 16) + 1)
        found = beam_search(
            plain,
            prompt,
            begin=codecs.begin_id,
            end=codecs.end_id,
            width=BEAMS,
            alpha=generation.length_penalty,
            most=most,
        )
        return codecs.target.decode(found)

    return {
        "nn modules": written_plainly,
        "ours, float32": ours("float32"),
        "ours": ours(own_precision),
        "runner, float32": lambda text: runners["float32"].translate([text], num_beams=BEAMS),
        "runner, int8": lambda text: runners["int8"].translate([text], num_beams=BEAMS),
    }


def in_float32(model: Translator) -> Translator:
    model.precision = "float32"
    return model


def in_turns(systems: dict[str, Callable[[str], Any]], texts: list[str], rounds: int) -> dict[str, float]:
    """Milliseconds for a sentence: of each system, the fastest round."""
    taken: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):  # the first one warms up
        for name, translated in systems.items():
            began = time.perf_counter()
            for text in texts if number else texts[:3]:
                translated(text)
            if number:
                taken[name].append(1000 * (time.perf_counter() - began) / len(texts))
    return {name: min(own) for name, own in taken.items()}


def measure_language(folder: Path, quick: bool) -> dict[str, float]:
    """Perplexity of held-out lines under an exported LSTM language model, in both precisions."""
    config = LanguageConfig(
        data="timemachine", tokens="char", cell="lstm", num_layers=2, epochs=1 if quick else 5, device="cpu"
    )
    dataset = open_dataset(config.data, download=False)
    out = folder / "language"
    RecurrentLanguage.create(config, dataset).fit(dataset, out)
    split = "test" if "test" in dataset.splits else dataset.splits[-1]
    text = "\n".join(dataset.texts(split))[:20_000]
    found = {"torch": torch.tensor(tt.load(out, device="cpu").score([text])[0].per_token).neg().exp().item()}
    for precision in ("float32", "int8"):
        export(out, folder / f"language-{precision}", int8=precision == "int8")
        scored = tt.runtime.load(folder / f"language-{precision}", threads=THREADS).score([text])[0]
        found[precision] = torch.tensor(scored.per_token).neg().exp().item()
    return found


def table(found: dict[str, Any]) -> None:
    taken, bleu, perplexity = found["milliseconds"], found["bleu"], found["perplexity"]
    fastest = taken["runner, int8"]
    print("one sentence, beam of 5, 2 threads", file=sys.stderr)
    for name, milliseconds in taken.items():
        print(f"  {name:18} {milliseconds:8.2f} ms   {milliseconds / fastest:5.2f} x int8", file=sys.stderr)
    ratios = {
        "int8 / our torch path": min(taken["ours"], taken["ours, float32"]) / fastest,
        "int8 / nn modules": taken["nn modules"] / fastest,
    }
    found["ratios"] = ratios
    for name, target in TARGETS.items():
        met = "met" if ratios[name] >= target else "MISSED"
        print(f"  {name}: {ratios[name]:.2f} (target {target:g}, {met})", file=sys.stderr)
    size = {name: value / 1e6 for name, value in found["bytes"].items()}
    print(f"  sizes: {size['float32']:.1f} MB in float32, {size['int8']:.1f} MB in int8", file=sys.stderr)
    lost = bleu["float32"] - bleu["int8"]
    print(
        f"  BLEU {bleu['float32']:.2f} in float32, {bleu['int8']:.2f} in int8: {lost:.2f} lost "
        f"({'met' if lost <= MAX_BLEU else 'MISSED'}: at most {MAX_BLEU})",
        file=sys.stderr,
    )
    more = perplexity["int8"] / perplexity["torch"] - 1
    print(
        f"  perplexity {perplexity['torch']:.4f} in torch, {perplexity['int8']:.4f} in int8: {more:+.2%} "
        f"({'met' if more <= MAX_PERPLEXITY else 'MISSED'}: at most {MAX_PERPLEXITY:.0%})",
        file=sys.stderr,
    )
    print(f"  same words as torch in float32: {found['same as torch in float32']:.1%}", file=sys.stderr)


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
