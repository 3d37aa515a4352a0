"""The server under load: batched against one at a time, latencies, memory over 10,000 requests, errors.

A small translator is trained on the embedded English and French, and served in a process of its own. Clients
keep their connections and ask for one sentence at a time, as fast as they are answered. Both servers get the
same sentences, and their answers are compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from throughtime.data.datasets import open_dataset

DATA = "embedded/en-fr"
CLIENTS, REQUESTS, MANY = 32, 600, 10_000
WARM = 2_000
"""Requests after which the memory has what it needs: pools, caches and arenas have their sizes."""
MEGABYTE = 1 << 20


class Load(NamedTuple):
    """What came of a number of requests."""

    answers: list[str]
    latencies: list[float]  # seconds
    seconds: float
    errors: int

    def values(self) -> dict[str, Any]:
        """Throughput and percentiles."""
        ordered = sorted(self.latencies)
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {
            "requests_a_second": round(len(ordered) / self.seconds, 1),
            **{
                f"{name}_ms": round(1000 * ordered[int(share * (len(ordered) - 1))], 1)
                for name, share in shares.items()
            },
            "errors": self.errors,
        }


def run() -> dict[str, Any]:
    sentences = [pair.source for pair in open_dataset(DATA).pairs("test")]
    asked = [sentences[number % len(sentences)] for number in range(REQUESTS)]
    with tempfile.TemporaryDirectory() as folder:
        translator = trained(Path(folder) / "en-fr")
        with served(translator) as (address, process):
            asyncio.run(loaded(address, asked[:CLIENTS]))
            batched = asyncio.run(loaded(address, asked))
            memory = memory_over(address, process, sentences)
        with served(translator, "--batch", "1", "--batch-wait", "0") as (address, _):
            asyncio.run(loaded(address, asked[:CLIENTS]))
            single = asyncio.run(loaded(address, asked))
    different = sum(a != b for a, b in zip(batched.answers, single.answers, strict=True))
    result = {
        "clients": CLIENTS,
        "batched": batched.values(),
        "one_at_a_time": single.values(),
        "throughput_ratio": round(single.seconds / batched.seconds, 2),
        "answers_that_differ": f"{different} of {REQUESTS}",
        **memory,
    }
    for name, value in result.items():
        print(f"{name:28} {value}", file=sys.stderr)
    return result


def trained(out: Path) -> Path:
    settings = ["--set", "epochs=2", "--set", "hidden_size=256", "--set", "valid_sentences=50"]
    words = ["train", "translate", "--data", DATA, "--out", str(out), *settings, "--json"]
    subprocess.run([sys.executable, "-m", "throughtime", *words], check=True, stdout=subprocess.DEVNULL)
    return out


@contextlib.contextmanager
def served(model: Path, *options: str) -> Iterator[tuple[tuple[str, int], psutil.Process]]:
    """A server of the model in its own process."""
    command = [sys.executable, "-m", "throughtime", "serve", str(model), "--port", "0", *options]
    with tempfile.NamedTemporaryFile() as log, subprocess.Popen(command, stderr=log) as process:
        try:
            while True:
                if found := re.search(r"Serving at http://([\d.]+):(\d+)", Path(log.name).read_text()):
                    break
                if process.poll() is not None:
                    raise RuntimeError("the server did not start")
                time.sleep(0.1)
            yield (found[1], int(found[2])), psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGINT)


async def loaded(address: tuple[str, int], sentences: Sequence[str]) -> Load:
    """Ask for all sentences, as many at once as there are clients."""
    answers, latencies, errors = [""] * len(sentences), [0.0] * len(sentences), 0
    numbers = iter(range(len(sentences)))

    async def client() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection(*address)
        for number in numbers:
            began = time.perf_counter()
            status, body = await posted(reader, writer, sentences[number])
            latencies[number] = time.perf_counter() - began
            errors += status != 200
            answers[number] = json.loads(body).get("translatedText", "")
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return Load(answers, latencies, time.perf_counter() - began, errors)


async def posted(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sentence: str
) -> tuple[int, bytes]:
    """One request on an open connection; a client this small leaves the machine to the server."""
    body = json.dumps({"q": sentence, "source": "en", "target": "fr"}).encode()
    head = [
        "POST /translate HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    await writer.drain()
    told = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", told, re.IGNORECASE)
    assert length is not None
    return int(told.split(" ", 2)[1]), await reader.readexactly(int(length[1]))


def memory_over(
    address: tuple[str, int], process: psutil.Process, sentences: Sequence[str]
) -> dict[str, Any]:
    """How the server's memory grows over many requests of short sentences."""
    short = sorted(sentences, key=len)[:100]
    errors = asyncio.run(loaded(address, [short[number % 100] for number in range(WARM)])).errors
    before = process.memory_info().rss
    rest = asyncio.run(loaded(address, [short[number % 100] for number in range(MANY - WARM)]))
    return {
        "memory_mb": round(before / MEGABYTE, 1),
        f"growth_mb_from_{WARM}_to_{MANY}": round((process.memory_info().rss - before) / MEGABYTE, 1),
        "errors_of_many": errors + rest.errors,
    }


if __name__ == "__main__":
    run()
