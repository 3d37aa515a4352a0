"""Feed a real server on this machine with bytes: `make fuzz` asks it for `/health` meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from hypothesis import strategies as st

from tools.floods import FLOODS, PAUSE, Wait, Waits, measure_flood, probe, request
from tools.fuzz import Target, mutated

CLIENTS = 8
PATIENCE = 8.0
"""Seconds after which a connection must be closed; the server allows one, on a machine that is not busy."""
MAX_WAIT, MAX_STEP = 0.5, 0.1
"""CPU seconds that the server may spend before it answers `/health`, and in one step of its event loop."""
OPTIONS = {"header_timeout": 1.0, "idle_timeout": 0.2, "timeout": 1.0}

MAX_BYTES, MAX_HEADER = 2_000_000, 200_000
"""Bytes of some chunks, and of a header: far more than the server reads."""

sizes = st.sampled_from([0, 1, 1, 1, 2, 15, 16, 1_000, 5_000])
counts = st.sampled_from([1, 1, 2, 100, 3_000, 9_000, 30_000])
endings = st.sampled_from(
    [b"0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"0\r\n" + b"a:\r\n" * 5_000 + b"\r\n", b"", b"0"]
)
paths = st.sampled_from(["/classify", "/translate", "/v1/completions", "/health", "/nowhere", "*", "//"])


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    """Draw a request whose body comes in chunks: many, few, empty, with extensions, trailers or damage."""
    body = b""
    for _ in range(draw(st.integers(1, 4))):
        size = draw(sizes)
        name = draw(
            st.sampled_from([b"%x", b"%X", b"000%x", b"%x;a=b", b"%x;" + b"x" * 500, b"%x ", b"-%x", b"0x%x"])
        )
        body += (name % size + b"\r\n" + b" " * size + b"\r\n") * min(draw(counts), MAX_BYTES // (size + 520))
    coded = draw(
        st.sampled_from(["chunked", "chunked", "chunked", "gzip, chunked", "CHUNKED", "chunked, chunked"])
    )
    fields = ["Content-Type: application/json", f"Transfer-Encoding: {coded}"]
    header = request(
        draw(paths), *fields, method="POST", host=draw(st.sampled_from(["localhost", "other.example"]))
    )
    return draw(mutated(header)) + body + draw(endings)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Draw requests with headers of all lengths, and with queries."""
    name = draw(
        st.sampled_from([b"a", b"A" * 300, b"Host", b"Content-Length", b"Connection", b"X-Request-Id", b" "])
    )
    value = draw(
        st.sampled_from([b"", b" 1", b" localhost", b" close", b" " + b"x" * 9_000, b" \xff", b"\r\n folded"])
    )
    field = name + b":" + value + draw(st.sampled_from([b"\r\n", b"\r\n", b"\n"]))
    fields = field * min(draw(counts), MAX_HEADER // len(field) + 1)
    query = draw(st.sampled_from(["", "?a=%41", "?" + "a&" * 99, "?" + "a&" * 7_000, "?" + "%ff" * 5_000]))
    content = request(draw(paths).rstrip("*") + query)[:-2] + fields[:MAX_HEADER] + b"\r\n"
    return draw(mutated(content)) * draw(st.sampled_from([1, 1, 20]))


@contextlib.contextmanager
def server_targets(folder: Path) -> Iterator[list[Target]]:
    """Run a server; at the end, tell how long `/health` took at most."""
    from tests.adversary.serve.probing import get, server
    from tests.serve.conftest import SMALL, saved

    (folder / "labelled.csv").write_text("text,label\n" + "the cat,animal\nsome jazz,music\n" * 20)
    model = saved(folder / "fed", "classify", folder / "labelled.csv", **SMALL)
    slowest: dict[str, Wait] = {}

    with server([model], **OPTIONS) as host:
        address = host.split(":")[0], int(host.split(":")[1])
        process = psutil.Process().children()[-1]

        def judge(name: str, waits: Sequence[Wait]) -> None:
            step = float(get(host, "/longest"))
            slowest[name] = worst = Waits([*waits, slowest.get(name, Wait(0, 0))], 0).worst
            if worst.cpu_seconds > MAX_WAIT or step > MAX_STEP:
                raise ValueError(f"{name}: {worst} for /health, and the longest step took {step:.2f} s")

        def send(content: bytes, name: str) -> bool:
            answers, waits = asyncio.run(_send(address, process, content))
            judge(name, waits)
            return all(200 <= _status(answer) < 400 for answer in answers)

        def flood(name: str) -> None:
            judge(name, measure_flood(address, process, name, 1.0).waits)

        floods = st.sampled_from(sorted(FLOODS.keys() - {"handshakes"}))
        yield [
            Target("server: chunks", chunks(), lambda content: send(content, "chunks"), examples=5),
            Target("server: headers", headers(), lambda content: send(content, "headers"), examples=5),
            Target("server: floods", floods, flood, examples=2),
        ]
    for name, worst in sorted(slowest.items(), key=lambda item: -item[1].cpu_seconds):
        seconds, cpu = (round(1000 * value) for value in worst)
        print(f"/health took at most {seconds} ms, {cpu} of them computed: {name}")


async def _send(
    address: tuple[str, int], process: psutil.Process, content: bytes
) -> tuple[list[bytes], list[Wait]]:
    """Send a content over several connections; return the answers, and how long `/health` took meanwhile."""
    waits: list[Wait] = []

    async def exchange() -> bytes:
        answer = b""
        with contextlib.suppress(ConnectionError):
            reader, writer = await asyncio.open_connection(*address)
            with contextlib.closing(writer):
                writer.write(content)
                while piece := await reader.read(1 << 16):
                    answer += piece
        return answer

    async with asyncio.timeout(PATIENCE):
        exchanges = asyncio.gather(*(exchange() for _ in range(CLIENTS)))
        while not waits or not exchanges.done():
            waits.append(await asyncio.to_thread(probe, address, process))
            await asyncio.sleep(PAUSE)
        return await exchanges, waits


def _status(answer: bytes) -> int:
    """Return the status of the first answer, 0 for none; one that no server should send is an error."""
    if not answer:
        return 0
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    if found is None or int(found[1]) in (500, 502):
        raise ValueError(f"the server answered {answer[:200]!r}")
    status, body = int(found[1]), answer.partition(b"\r\n\r\n")[2]
    if status >= 400 and answer.count(b"HTTP/1.1 ") == 1 and body and "error" not in json.loads(body):
        raise ValueError(f"no error in {body[:200]!r}")
    return status
