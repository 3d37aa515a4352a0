"""Feed every reader and every HTTP endpoint with input that nobody would think of: `make fuzz MINUTES=10`.

An input is answered or refused with one of our own errors, in bounded time and memory. Anything else is a
failure: the smallest input that shows it is written to out/fuzz, and the exit code is 1. The inputs come from
the generators of the tests.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import lzma
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from throughtime.errors import ThroughtimeError
from tools.fuzz_folders import folder_targets

OUT = Path("out/fuzz")
MAX_SECONDS = 10.0
"""Seconds after which an input has taken too long."""
MEMORY = 2 << 30
"""Bytes that a turn may allocate beyond what is in use when it begins."""
MAX_ERROR_LENGTH = 5_000
MAX_FAILURES = 3
"""Failures of a target after which it is left alone."""


@dataclass
class Target:
    """What is fed, with which inputs; `attempt` returns whether the input was answered, not refused."""

    name: str
    inputs: st.SearchStrategy[Any]
    attempt: Callable[[Any], bool | None]
    examples: int = 20
    """Number of inputs of its next turn, so that each turn takes about as long."""
    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)


def main(words: Sequence[str] | None = None) -> int:
    """Fuzz all targets in turn until the time is over, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="targets whose name has this in it")
    given_words = parser.parse_args(words)
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "16")  # as `serve` does: each new shape of a batch would take memory
    from tools.fuzz_server import server_targets

    with tempfile.TemporaryDirectory() as name, server_targets(Path(name)) as served:
        folder = Path(name)
        every = itertools.chain(file_targets(folder), http_targets(folder), folder_targets(folder), served)
        targets = [target for target in every if given_words.only in target.name]
        return fuzz(targets, given_words.minutes * 60)


def fuzz(targets: Sequence[Target], seconds: float, out: Path = OUT) -> int:
    """Try all targets in turn; return 1 if there was a failure."""
    until, turn = time.monotonic() + seconds, seconds / len(targets) / 3
    signal.signal(signal.SIGALRM, _too_slow)
    while time.monotonic() < until and any(len(one.failures) < MAX_FAILURES for one in targets):
        for target in targets:
            if len(target.failures) < MAX_FAILURES and time.monotonic() < until:
                limit_memory()
                began = time.monotonic()
                try_target(target, until, out)
                rate = target.examples / (time.monotonic() - began)
                target.examples = round(min(max(rate * turn, 10), 1_000))
    failures = [one for target in targets for one in target.failures]
    counts = [(one.name, one.tried, one.refused, len(one.failures)) for one in targets]
    counts.append(("total", *(sum(column) for column in list(zip(*counts, strict=True))[1:])))
    width = max(len(name) for name, *_ in counts)
    print(f"{'target':{width}}  {'inputs':>9}  {'refused':>9}  {'failures':>8}")
    for name, tried, refused, failed in counts:
        print(f"{name:{width}}  {tried:>9,}  {refused:>9,}  {failed:>8,}")
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


def try_target(target: Target, until: float, out: Path) -> None:
    """Try some inputs; a failure is reduced to a small input and written to `out`."""
    last: list[Any] = [None]

    @settings(
        max_examples=target.examples,
        phases=(Phase.generate, Phase.shrink),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        derandomize=False,
    )
    @given(target.inputs)
    def attempt(value: Any) -> None:
        if time.monotonic() > until + 60:  # nor does reducing a failure take forever
            return
        last[0] = value
        target.tried += 1
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        try:
            target.refused += target.attempt(value) is False
        except ThroughtimeError as error:
            target.refused += 1
            if "\n" in str(error) or len(str(error)) > MAX_ERROR_LENGTH:
                raise ValueError(f"more than one line, or too long: {error}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    try:
        with warnings.catch_warnings():  # that the failing input is long is no failure
            warnings.simplefilter("ignore", HypothesisWarning)
            attempt()
    except Exception as error:  # whatever it is, it is a failure
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{re.sub(r'[^a-z0-9.]+', '-', target.name.lower())}-{len(target.failures) + 1}.txt"
        path.write_text(
            f"{last[0]!r}\n\n{traceback.format_exc()}", encoding="utf-8", errors="backslashreplace"
        )
        target.failures.append(f"{target.name}: {type(error).__name__}: {str(error)[:200]!r} ({path})")


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"took more than {MAX_SECONDS:g} seconds")


def limit_memory() -> None:
    """Let allocations fail that go far beyond what this process has now.

    Data count, not addresses: threads reserve more and more addresses that they do not use.
    """
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))


@st.composite
def mutated(draw: st.DrawFn, *originals: bytes) -> bytes:
    """Draw one of these contents, with some pieces removed, repeated, moved or replaced."""
    from tests.data.test_readers_any import PIECES

    content = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 4))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=4) | st.just(content[first:last]))
        content = content[:first] + piece * draw(st.sampled_from((0, 1, 1, 1, 2, 50))) + content[last:]
    return content


@st.composite
def changed_json(draw: st.DrawFn, original: bytes) -> bytes:
    """Draw this JSON document with one value, however deep, replaced by any other."""
    from tests.serve.test_fuzz import values

    document = [json.loads(original)]
    place, key = document, 0
    while isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 9)):
        place = place[key]
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = draw(values)
    return json.dumps(document[0]).encode()


def packed(content: bytes, packing: str) -> bytes:
    """Pack a content as gzip, xz or zip."""
    if packing == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("content", content)
        return buffer.getvalue()
    return gzip.compress(content) if packing == "gz" else lzma.compress(content)


def file_targets(folder: Path) -> Iterator[Target]:
    """Yield every reader of files, with what it reads."""
    from tests.data.test_readers_any import CONTENT, INPUTS, SAMPLES

    from throughtime.config import build_config
    from throughtime.data.datasets import open_dataset
    from throughtime.data.readers import READERS
    from throughtime.data.readers.panel import read_panel
    from throughtime.data.source import BadRecords
    from throughtime.fit.metrics import read_metrics
    from throughtime.folder import ModelFolder
    from throughtime.ngram.arpa import read_arpa
    from throughtime.settings import format_settings, read_assignments, read_settings
    from throughtime.tasks import TASKS
    from throughtime.text.codec import Codec
    from throughtime.text.vocabulary import Vocabulary

    def written(name: str, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    def read_all(name: str, contents: Sequence[bytes], skip: bool) -> None:
        paths = [written(f"{name}-{place}", content) for place, content in enumerate(contents)]
        list(READERS[name]().read(paths[: INPUTS.get(name, 1)], BadRecords(skip)))

    for name in READERS:
        inputs = st.tuples(st.tuples(CONTENT, CONTENT, CONTENT), st.booleans())
        yield Target(f"reader {name}", inputs, lambda drawn, name=name: read_all(name, *drawn))

    def open_all(drawn: tuple[tuple[str, bytes], str, bool]) -> None:
        (name, content), split, skip = drawn
        list(open_dataset(written(name, content), skip_bad=skip).records(split))

    files = st.one_of(
        [mutated(text.encode()).map(lambda one, name=name: (name, one)) for name, text in SAMPLES]
    )
    splits = st.sampled_from(["all", "train", "test"])
    yield Target("data files", st.tuples(files, splits, st.booleans()), open_all)

    @st.composite
    def archives(draw: st.DrawFn) -> tuple[str, bytes]:
        packing = draw(st.sampled_from(["gz", "xz", "zip"]))
        name, text = draw(st.sampled_from(SAMPLES))
        return f"{name}.{packing}", draw(mutated(packed(text.encode(), packing)))

    yield Target("packed files", st.tuples(archives(), splits, st.booleans()), open_all)
    tables = [text.encode() for name, text in SAMPLES if "ds,y" in text]
    tables += [b"unique_id,ds,y\na,1,2\na,2,nan\nb,1,3\n", b"date;a;b\n31.12.2020;1,5;2\n01.01.2021;2,5;3\n"]
    panels = st.tuples(mutated(*tables), st.booleans())
    yield Target(
        "series", panels, lambda drawn: read_panel(written("p.csv", drawn[0]), bad=BadRecords(drawn[1]))
    )
    vocabulary = Vocabulary.build(["a", "cat", "\n", "<eos>"])
    vocabulary.save(folder / "v.txt")
    saved = (folder / "v.txt").read_bytes()
    yield Target("vocabulary", mutated(saved), lambda content: Vocabulary.load(written("v.txt", content)))
    arpa = Path("tests/ngram/kenlm.arpa").read_bytes()
    yield Target("ARPA file", mutated(arpa), lambda content: read_arpa(written("m.arpa", content)))
    lines = ["the cat sat on the mat", "the dog barks at the cat"] * 5
    for kind in ("bpe", "wordpiece", "unigram", "char"):
        place = folder / kind
        Codec.build(lines, kind, max_size=60).save(place)

        def load(drawn: tuple[str, bytes], place: Path = place) -> None:
            name, content = drawn
            before = (place / name).read_bytes()
            try:
                (place / name).write_bytes(content)
                codec = Codec.load(place)
                codec.decode(codec.encode("the cat"))
            finally:
                (place / name).write_bytes(before)

        parts = [
            changes(file.read_bytes()).map(lambda one, at=file.name: (at, one))
            for file in place.iterdir()
            for changes in ((mutated, changed_json) if file.suffix == ".json" else (mutated,))
        ]
        yield Target(f"tokenizer {kind}", st.one_of(parts), load)
    config = TASKS["language"].part("config")
    shown = format_settings(config, {"data": "ptb"}).encode()
    for suffix, text in (
        ("yaml", shown),
        ("toml", b'data = "ptb"\nlr = 1e-3\nclip = "null"\nbetas = [0.9, 0.99]\n'),
    ):

        def configure(content: bytes, name: str = f"settings.{suffix}") -> None:
            build_config(config, read_settings(written(name, content)), "settings")

        yield Target(f"settings {suffix}", mutated(text), configure)
    yield Target("settings words", st.lists(st.text() | st.text().map("lr={}".format)), read_assignments)

    def model_config(content: bytes) -> None:
        written("config.json", content)
        task, found = ModelFolder.at(folder).read_config()
        build_config(TASKS[task].part("config"), found, "config.json")

    ModelFolder(folder).write_config("language", config(data="ptb").model_dump(mode="json"))
    saved = (folder / "config.json").read_bytes()
    yield Target("config.json", mutated(saved) | changed_json(saved), model_config)
    rows = b"".join(
        json.dumps({"kind": "train", "step": step, "loss": 1.5}).encode() + b"\n" for step in (1, 2)
    )
    yield Target("metrics.jsonl", mutated(rows), lambda one: read_metrics(written("m.jsonl", one)))


def http_targets(folder: Path) -> Iterator[Target]:
    """Yield every endpoint of a server in this process: requests by its own description, and odd ones."""
    import schemathesis
    from starlette.testclient import TestClient
    from tests.serve.conftest import save_models
    from tests.serve.test_fuzz import FIELDS, LITTLE

    from throughtime.serve.app import create_app
    from throughtime.serve.models import Models

    runs = save_models(folder / "data", folder / "runs")
    app = create_app(Models.open(list(runs.values()), "cpu"), LITTLE, log=io.StringIO())
    client = TestClient(app, raise_server_exceptions=True)
    client.__enter__()

    def judge(answer: Any) -> bool:
        if answer.status_code >= 500 and answer.status_code != 503:
            raise ValueError(f"the server answered {answer.status_code}: {answer.text[:200]}")
        if answer.status_code >= 400 and "error" not in answer.json():
            raise ValueError(f"no error in {answer.text[:200]}")
        return bool(answer.status_code < 400)

    for found in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        operation = found.ok()
        name = f"{operation.method.upper()} {operation.path}"
        yield Target(name, operation.as_strategy(), lambda case: judge(case.call()))

    @st.composite
    def changed(draw: st.DrawFn) -> tuple[str, bytes, str]:
        path = draw(st.sampled_from(sorted(FIELDS)))
        return path, draw(changed_json(json.dumps(FIELDS[path]).encode())), "application/json"

    bodies = [json.dumps(body).encode() for body in FIELDS.values()]
    kinds = [
        "application/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "text/html",
    ]
    odd = st.tuples(st.sampled_from(sorted(FIELDS)), mutated(*bodies), st.sampled_from(kinds))

    def post(drawn: tuple[str, bytes, str]) -> bool:
        path, content, kind = drawn
        return judge(client.post(path, content=content, headers={"Content-Type": kind}))

    yield Target("POST one field changed", changed(), post)
    yield Target("POST any bytes", odd, post)


if __name__ == "__main__":
    sys.exit(main())
