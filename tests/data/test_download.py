"""Downloads against a real server on this machine that resumes, breaks off, lies or refuses."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.refusals import refuses

from throughtime.data.download import ChecksumError, UnreachableError, download
from throughtime.errors import ThroughtimeError

CONTENT = bytes(range(256)) * 2_000
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests has no certificate."""
    monkeypatch.setattr("throughtime.data.download.SCHEMES", ("http",))


@dataclass
class Behaviour:
    """What the server does next, and what it was asked."""

    content: bytes = CONTENT
    resumes: bool = True
    break_after: list[int] = field(default_factory=list)  # bytes to send before hanging up, per request
    statuses: list[int] = field(default_factory=list)  # answers before the first good one
    ranges: list[str | None] = field(default_factory=list)


@dataclass
class Server:
    address: str
    behaviour: Behaviour


@pytest.fixture
def server() -> Iterator[Server]:
    behaviour = Behaviour()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            behaviour.ranges.append(asked)
            if behaviour.statuses:
                self.send_error(behaviour.statuses.pop(0))
                return
            start = int(asked[len("bytes=") : -1]) if asked and behaviour.resumes else 0
            if start >= len(behaviour.content):
                self.send_error(416)
                return
            body = behaviour.content[start:]
            self.send_response(206 if start else 200)
            if start:
                size = len(behaviour.content)
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: behaviour.break_after.pop(0)] if behaviour.break_after else body)

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{running.server_address[1]}/corpus.txt", behaviour)
    running.shutdown()
    running.server_close()
    thread.join()


def get(server: Server, path: Path, attempts: int = 3, sha256: str | None = SUM) -> Path:
    return download(server.address, path, sha256=sha256, attempts=attempts, pause=0.0, timeout=5)


def test_whole_file_with_progress(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = download(
        server.address, tmp_path / "a" / "b.txt", sha256=SUM, progress=lambda *now: told.append(now)
    )
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_broken_connection_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.behaviour.break_after = [100_000, 50_000]
    assert get(server, tmp_path / "b.txt").read_bytes() == CONTENT
    assert server.behaviour.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_interrupted_download_is_never_taken_for_whole(server: Server, tmp_path: Path) -> None:
    server.behaviour.break_after = [100_000]
    with refuses("100000", "512000", error=ThroughtimeError):
        get(server, tmp_path / "b.txt", attempts=1, sha256=None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.txt.part"]
    assert get(server, tmp_path / "b.txt", attempts=1, sha256=None).read_bytes() == CONTENT
    assert server.behaviour.ranges[-1] == "bytes=100000-"


def test_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.behaviour.resumes = False
    server.behaviour.break_after = [100_000]
    assert get(server, tmp_path / "b.txt").read_bytes() == CONTENT


def test_kept_bytes_of_another_version_are_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "b.txt.part").write_bytes(b"x" * 1_000)
    assert get(server, tmp_path / "b.txt").read_bytes() == CONTENT
    assert server.behaviour.ranges == ["bytes=1000-", None]


def test_more_kept_bytes_than_the_server_has(server: Server, tmp_path: Path) -> None:
    (tmp_path / "b.txt.part").write_bytes(CONTENT + b"more")
    assert get(server, tmp_path / "b.txt").read_bytes() == CONTENT


def test_wrong_content_is_removed_and_both_sums_told(server: Server, tmp_path: Path) -> None:
    server.behaviour.content = b"<html>Please log in</html>"
    wrong = hashlib.sha256(server.behaviour.content).hexdigest()
    with refuses("corpus.txt", wrong, SUM, error=ChecksumError) as raised:
        get(server, tmp_path / "b.txt")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_not_found_is_told_at_once(server: Server, tmp_path: Path) -> None:
    server.behaviour.statuses = [404]
    with refuses("corpus.txt", "404", error=ThroughtimeError):
        get(server, tmp_path / "b.txt")
    assert len(server.behaviour.ranges) == 1
    assert list(tmp_path.iterdir()) == []


def test_passing_server_trouble_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.behaviour.statuses = [503, 500]
    assert get(server, tmp_path / "b.txt").read_bytes() == CONTENT
    server.behaviour.statuses = [503] * 3
    with refuses("corpus.txt", "503", error=ThroughtimeError):
        get(server, tmp_path / "c.txt")


def test_offline_is_one_sentence(server: Server, tmp_path: Path) -> None:
    with refuses("http://127.0.0.1:9/corpus.txt", error=UnreachableError):
        download("http://127.0.0.1:9/corpus.txt", tmp_path / "b.txt")
    assert list(tmp_path.iterdir()) == []


def test_several_processes_at_once(server: Server, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from throughtime.data import download; download.SCHEMES = ('http',);"
        "download.download(sys.argv[1], pathlib.Path(sys.argv[2]), sha256=sys.argv[3])"
    )
    words = [sys.executable, "-c", program, server.address, str(tmp_path / "b.txt"), SUM]
    children = [subprocess.Popen(words) for _ in range(3)]
    assert [child.wait(30) for child in children] == [0, 0, 0]
    assert [(entry.name, entry.read_bytes() == CONTENT) for entry in tmp_path.iterdir()] == [("b.txt", True)]
