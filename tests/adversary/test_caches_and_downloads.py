"""A cache that cannot be written to, and servers that send elsewhere, or send too much."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.refusals import refuses

from throughtime import files
from throughtime.data import download as module
from throughtime.data.download import download
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.files import cache_entry, writable_cache


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A cache folder that nobody may write to, not even root: it would lie inside a file."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "file" / "cache"))


def test_a_temporary_folder_takes_the_place_of_a_cache_that_cannot_be_written(read_only):
    with pytest.warns(ThroughtimeWarning, match="THROUGHTIME_CACHE"):
        folder = writable_cache()
    assert writable_cache() == folder  # and no second warning, which would be an error here
    assert folder.stat().st_mode & 0o077 == 0  # nobody else reads or prepares what lies there
    assert not cache_entry("a").exists()
    (folder / "a").write_text("kept")
    assert cache_entry("a").read_text() == "kept"


def test_what_a_read_only_cache_has_is_still_found(tmp_path, monkeypatch):
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path))
    monkeypatch.setattr(files, "_is_writable", lambda folder: False)
    (tmp_path / "old").write_text("old")
    with pytest.warns(ThroughtimeWarning, match="THROUGHTIME_CACHE"):
        (writable_cache() / "new").write_text("new")
    assert [cache_entry(name).read_text() for name in ("old", "new")] == ["old", "new"]
    assert not (tmp_path / "new").exists()


ENCODE = """
import warnings
from throughtime.data.datasets import open_dataset
from throughtime.data.idcache import token_ids
from throughtime.text.codec import Codec
dataset = open_dataset("lines.txt")
codec = Codec.build(dataset.texts(), "space")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        found = token_ids(dataset, "all", codec, eos=False)
print(len(found), [str(one.message).count("THROUGHTIME_CACHE") for one in caught])
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"THROUGHTIME_CACHE": "FILE/cache"},
        {"HOME": "FILE", "XDG_CACHE_HOME": ""},
        {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""},
    ],
)
def test_data_are_encoded_without_a_place_for_a_cache(tmp_path, settings):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "lines.txt").write_text("the cat sat on the mat .\n" * 30)
    (tmp_path / "temporary").mkdir()
    settings = {name: value.replace("FILE", str(tmp_path / "file")) for name, value in settings.items()}
    own = {name: value for name, value in os.environ.items() if name != "THROUGHTIME_CACHE"}
    environment = {**own, **settings, "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", ENCODE]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "210 [1]\n", "")
    assert [*(tmp_path / "temporary").iterdir()] == []  # removed at the end


@pytest.fixture
def server(monkeypatch):
    """The address of a server: /to/ADDRESS redirects, /size/N has N bytes, /stream/N tells no size."""
    monkeypatch.setattr(module, "SCHEMES", ("http",))

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def do_GET(self):
            _, kind, rest = self.path.split("/", 2)
            self.send_response(302 if kind == "to" else 200)
            if kind == "to":
                self.send_header("Location", rest)
            elif kind == "size":
                self.send_header("Content-Length", rest)
            self.end_headers()
            if kind != "to":
                self.wfile.write(b"x" * int(rest))

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/a", "file:///etc/hostname", "ftp://127.0.0.1/a", "a"]
)
def test_only_https_addresses_are_downloaded(address, tmp_path):
    with pytest.raises(ThroughtimeError, match="https"):
        download(address, tmp_path / "a")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("scheme", ["https", "ftp"])
def test_redirections_to_other_schemes_are_not_followed(server, scheme, tmp_path):
    """Here http is allowed and https is not, which shows that each redirection is checked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        target = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/a"
        with refuses(target, "only", error=ThroughtimeError):
            download(f"{server}/to/{target}", tmp_path / "a", timeout=0.5, attempts=1)
        with pytest.raises(BlockingIOError):
            listener.accept()  # nobody came
    assert [*tmp_path.iterdir()] == []
    assert download(f"{server}/to/{server}/size/5", tmp_path / "a").read_bytes() == b"xxxxx"


@pytest.mark.parametrize("kind", ["size", "stream"])
def test_more_bytes_than_a_file_can_have_are_refused(server, kind, tmp_path):
    with pytest.raises(ThroughtimeError, match="100,000 bytes"):
        download(f"{server}/{kind}/1000000", tmp_path / "a", limit=100_000, pause=0)
    assert [*tmp_path.iterdir()] == []
    assert download(f"{server}/{kind}/100000", tmp_path / "a", limit=100_000).stat().st_size == 100_000
