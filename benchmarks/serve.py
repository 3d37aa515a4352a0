"""The server under load: latencies beside a plain FastAPI application, and memory over a mixed load.

A small translator is trained on the embedded English and French. It is served by throughtime, which batches,
and by an application of a dozen lines that calls the same model for each request, one after the other.
Clients keep their connections and ask for one sentence at a time, as fast as they are answered. Both get the
same sentences, and their answers are compared.

The mixed load goes to models of several tasks, untrained: forecasts, labels, fillings, completions whole and
streamed, translations, and requests that are refused.

At last, 64 clients flood the server in each way of `tools/floods.py`, while another one asks for `/health`.
How much the server computed until it answered depends less on other programs than the time that it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from tools.floods import FLOODS, measure_flood

from throughtime.data.datasets import open_dataset
from throughtime.tasks import TASKS

DATA = "embedded/en-fr"
CLIENTS = {1: 100, 32: 600, 256: 1_000}
"""Requests for each number of clients."""
WARM, MANY = 5_000, 25_000
"""Requests after which pools, caches and arenas have their sizes, and requests in all."""
MEGABYTE = 1 << 20
PLAIN = """
import sys
import throughtime as tt, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

model, app = tt.load(sys.argv[1], device="cpu"), FastAPI()

class Asked(BaseModel):
    q: str

@app.post("/translate")
async def translate(asked: Asked):
    return {"translatedText": model.translate(asked.q)[0].text}

print("Serving at http://127.0.0.1:" + sys.argv[2], file=sys.stderr, flush=True)
uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
"""
Request = tuple[str, dict[str, Any], int]
"""A path, a body, and the status that is expected."""


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
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        translator = train_translator(Path(folder) / "en-fr")
        serve = ["-m", "throughtime", "serve", "--port", "0", "--max-connections-per-client", "1000"]
        plain = ["-c", PLAIN, str(translator), str(find_port())]
        answers: dict[str, list[str]] = {"throughtime": [], "plain_fastapi": []}
        with run_server([*serve, str(translator)]) as (own, _), run_server(plain) as (other, _):
            addresses = {"throughtime": own, "plain_fastapi": other}
            for address in addresses.values():
                asyncio.run(ask(address, translations(sentences, 64), 32))
            for clients, requests in CLIENTS.items():
                for name, address in addresses.items():
                    answered = asyncio.run(ask(address, translations(sentences, requests), clients))
                    result[f"{name}_{clients}_clients"] = answered.values() | {"load": load()}
                    answers[name] += answered.answers
        different = sum(a != b for a, b in zip(*answers.values(), strict=True))
        result["answers_that_differ"] = f"{different} of {sum(CLIENTS.values())}"
        runs = [str(translator), *save_models(Path(folder))]
        with run_server([*serve, *runs]) as (address, process):
            result |= measure_memory(address, process)
        with run_server([*serve, str(translator)]) as (address, process):
            result |= measure_floods(address, process)
    for name, value in result.items():
        print(f"{name:28} {value}", file=sys.stderr)
    return result


def translations(sentences: Sequence[str], count: int) -> list[Request]:
    chosen = itertools.islice(itertools.cycle(sentences), count)
    return [("/translate", {"q": one, "source": "en", "target": "fr"}, 200) for one in chosen]


def train_translator(out: Path) -> Path:
    settings = ["--set", "epochs=2", "--set", "hidden_size=256", "--set", "valid_sentences=50"]
    words = ["train", "translate", "--data", DATA, "--out", str(out), *settings, "--json"]
    subprocess.run([sys.executable, "-m", "throughtime", *words], check=True, stdout=subprocess.DEVNULL)
    return out


def save_models(folder: Path) -> list[str]:
    """Save untrained models of other tasks; return their folders."""
    lines = ["the cat sleeps .", "the dog sees a bird .", "a bird sings in the old garden ."] * 20
    days = [f"{date(2024, 1, 1) + timedelta(day)},{math.sin(day):.4f}" for day in range(200)]
    labelled = ["text,label", *("the cat,animal", "some jazz,music") * 20]
    for name, rows in {"lines.txt": lines, "days.csv": ["ds,y", *days], "labelled.csv": labelled}.items():
        (folder / name).write_text("\n".join(rows) + "\n")
    small = {"hidden_size": 64, "device": "cpu", "precision": "float32"}
    chosen = {
        "letters": ("language", "lines.txt", {"tokens": "char", "layout": "stream", **small}),
        "blanks": ("fill", "lines.txt", {"tokens": "space", **small}),
        "topics": ("classify", "labelled.csv", small),
        "days": ("forecast", "days.csv", {"lookback": 14, "horizon": 7, "head": "quantiles", **small}),
    }
    for name, (task, file, settings) in chosen.items():
        predictor = TASKS[task].part("predictor")
        config = predictor.config_type(data=str(folder / file), **settings)
        predictor.create(config, open_dataset(str(folder / file), **config.data_options)).save(folder / name)
    return [str(folder / name) for name in chosen]


def mixed_requests(count: int) -> Iterator[Request]:
    """Yield requests of all kinds, of ever other lengths."""
    days = [str(date(2024, 1, 1) + timedelta(day)) for day in range(60)]
    words = "the cat sees a dog in the old garden and sleeps".split()
    for number in range(count):
        text = " ".join(words[: 2 + number // 8 % 9])
        prompt = {"model": "letters", "prompt": text, "max_tokens": 1 + number % 17, "seed": number}
        rows = 20 + number // 8 % 40
        series = [
            {"unique_id": str(one), "ds": days[:rows], "y": [one] * rows} for one in range(1 + number % 3)
        ]
        yield (
            ("/translate", {"q": text, "source": "en", "target": "fr", "num_beams": 1 + number % 3}, 200),
            ("/v1/completions", prompt | {"logprobs": 2, "n": 2}, 200),
            ("/v1/completions", prompt | {"stream": True}, 200),
            ("/fill", {"q": f"{text} ___ .", "k": 3}, 200),
            ("/classify", {"q": [text] * (1 + number % 5)}, 200),
            ("/forecast", {"series": series, "level": [80]}, 200),
            ("/inspect/next", {"q": text, "model": "letters"}, 200),
            ("/fill", {"q": "___ " * 2_000}, 413),
        )[number % 8]


def measure_memory(address: tuple[str, int], process: psutil.Process) -> dict[str, Any]:
    """Return how the memory of the server grows over a mixed load, and the number of wrong statuses."""
    requests = list(mixed_requests(MANY))
    first = asyncio.run(ask(address, requests[:WARM], 32))
    before = measure_rest(process)
    rest = asyncio.run(ask(address, requests[WARM:], 32))
    after = measure_rest(process)
    return {
        "mixed_load": rest.values() | {"load": load()},
        "memory_mb": round(before / MEGABYTE, 1),
        f"growth_mb_from_{WARM}_to_{MANY}": round((after - before) / MEGABYTE, 1),
        "failures": first.errors + rest.errors,
    }


def measure_floods(address: tuple[str, int], process: psutil.Process) -> dict[str, Any]:
    """Return the milliseconds that `/health` took at most during each flood, and those computed meanwhile."""
    result = {}
    for name in FLOODS.keys() - {"handshakes"}:  # they need TLS
        worst = measure_flood(address, process, name).worst
        taken = [round(1000 * seconds) for seconds in worst]
        result[f"health during {name}"] = {**dict(zip(("ms", "cpu_ms"), taken, strict=True)), "load": load()}
    return result


def load() -> float:
    return round(os.getloadavg()[0], 1)


def measure_rest(process: psutil.Process) -> int:
    """The bytes of a server that has nothing to do; it returns freed memory every five seconds."""
    found = []
    for _ in range(12):
        time.sleep(0.5)
        found.append(int(process.memory_info().rss))
    return min(found)


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextlib.contextmanager
def run_server(words: Sequence[str]) -> Iterator[tuple[tuple[str, int], psutil.Process]]:
    """A server in its own process."""
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen([sys.executable, *words], stderr=log) as process,
    ):
        try:
            while not (found := re.search(r"Serving at http://([\d.]+):(\d+)", Path(log.name).read_text())):
                if process.poll() is not None:
                    raise RuntimeError(f"the server did not start: {Path(log.name).read_text()}")
                time.sleep(0.1)
            address = found[1], int(found[2])
            while True:
                with contextlib.suppress(OSError), socket.create_connection(address):
                    break
                time.sleep(0.1)
            yield address, psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGINT)


async def ask(address: tuple[str, int], requests: Sequence[Request], clients: int) -> Load:
    """Send all requests, as many at once as there are clients."""
    answers, latencies, errors = [""] * len(requests), [0.0] * len(requests), 0
    numbers = iter(range(len(requests)))

    async def run_client() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection(*address)
        for number in numbers:
            path, body, expected = requests[number]
            began = time.perf_counter()
            status, answer = await post(reader, writer, path, json.dumps(body).encode())
            latencies[number] = time.perf_counter() - began
            errors += status != expected
            if path == "/translate" and status == 200:
                answers[number] = json.loads(answer).get("translatedText", "")
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(run_client() for _ in range(clients)))
    return Load(answers, latencies, time.perf_counter() - began, errors)


async def post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes
) -> tuple[int, bytes]:
    """One request on an open connection; a client this small leaves the machine to the server."""
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    await writer.drain()
    told = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(told.split(" ", 2)[1])
    if length := re.search(r"content-length: (\d+)", told, re.IGNORECASE):
        return status, await reader.readexactly(int(length[1]))
    chunks = b""
    while size := int(await reader.readline(), 16):  # a stream
        chunks += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return status, chunks


if __name__ == "__main__":
    run()
