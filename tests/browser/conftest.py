"""What the tests in a browser share: browsers, servers, node, and tiny trained models, also as HTML files."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from throughtime.files import PAGE

HERE = Path(__file__).parent
PATIENCE = 20_000
"""How many milliseconds a page may take for one thing, on a machine that may be busy."""
TASKS = ("translate", "language", "ngram", "tag", "fill", "classify", "compose", "forecast")
EPOCHS = {
    "translate": 25,
    "language": 10,
    "tag": 6,
    "fill": 10,
    "classify": 8,
    "compose": 10,
    "forecast": 10,
}
"""After how many epochs a tiny model of each task answers sensibly; all of them take about five seconds."""


@pytest.fixture(scope="session")
def inputs():
    """How many inputs of each task are compared with Python."""
    return int(os.environ.get("THROUGHTIME_INPUTS", "50"))


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder that all processes of this run of the tests share."""
    base = tmp_path_factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    found.mkdir(exist_ok=True)
    return found


def made_once(folder, name, make):
    """Make a file or folder by `make(path)` unless another process of this run of the tests has made it."""
    place = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = place.with_name(f"unfinished-{place.name}")
            make(unfinished)
            unfinished.rename(place)
    return place


@pytest.fixture(scope="session")
def runs(shared_folder):
    """The folders of a tiny trained model of each task, by the task's name."""
    found = made_once(shared_folder, "runs", train_tiny)
    return {path.name: path for path in sorted(found.iterdir()) if path.name != "data"}


def train_tiny(folder):
    """Train a tiny model of each task in this folder."""
    from tests.tiny import tiny_data, training

    from throughtime.cli.main import main

    # The models' settings name their data, so these must not move.
    data = folder.with_name("data")
    data.mkdir(parents=True)
    folder.mkdir()
    for task, source in tiny_data(data).items():
        settings = {"epochs": EPOCHS[task]} if task in EPOCHS else {}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(training(task, source, folder / task, **settings))
        assert code == 0, task


@pytest.fixture(scope="session")
def exported(runs, shared_folder):
    """A function that writes models, given by task or folder, to one HTML file and returns its path."""

    def export(*models, weights="float32"):
        folders = [Path(runs.get(one, one)) for one in models]
        name = "-".join([*(one.name for one in folders), weights]) + ".html"

        def write(path):
            from throughtime.cli.main import main

            words = ["export", *map(str, folders), "--format", "html", "--weights", weights]
            assert main([*words, "--out", str(path)]) == 0

        # The file's name decides the format elsewhere, so the unfinished file ends in .html too.
        return made_once(shared_folder, name, write)

    return export


@pytest.fixture(params=["server", "file"])
def place(request):
    """The page of a server with a model of each task, and a file with the same models."""
    if request.param == "server":
        return request.getfixturevalue("trained_site")
    return request.getfixturevalue("exported")(*TASKS, weights="int8")


@contextlib.contextmanager
def serving(models, options=None):
    """A server of these models on a free port: its address."""
    from throughtime.serve.app import create_app
    from throughtime.serve.requests import Options
    from throughtime.serve.server import Server, format_address, listen

    app = create_app(models, options or Options(), log=io.StringIO())
    with listen("127.0.0.1", 0) as listener:
        server = Server(app, 5.0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield format_address(listener)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def trained_site(runs):
    """Where a server of the tiny trained models of all tasks listens."""
    from throughtime.serve.models import Models

    with serving(Models.open(list(runs.values()), "cpu")) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, or a skip with its reason."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    with playwright.sync_playwright() as driver:
        # In a container root has no other sandbox than the container itself.
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", *quiet])
        yield started
        started.close()


def address_of(place):
    """The address of a file, or the address itself."""
    return place.resolve().as_uri() if isinstance(place, Path) else place


@pytest.fixture
def opened(browser):
    """Open an address or an HTML file; what the page complains of fails the test.

    A file must ask for nothing from any network; that fails the test too.
    """
    contexts, complaints = [], []

    def open_page(place, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        if isinstance(place, Path):
            page.on("request", lambda request: complaints.extend(outside(request.url)))
        page.goto(address_of(place))
        page.wait_for_selector("section")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not [line for line in complaints if "status of 4" not in line]


def outside(address):
    """A complaint about an address that a self-contained file must not ask for."""
    allowed = ("file:", "data:", "blob:", "about:")
    return [] if address.startswith(allowed) else [f"the file asked for {address}"]


def find_node():
    """The program `node` and how it reads our modules, or a skip with its reason."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node on this machine: apt-get install nodejs")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major = int(version.strip().lstrip("v").split(".")[0])
    # From 23 on, node sees by itself that a file is a module.
    return [program, *(["--experimental-default-type=module"] if major < 23 else [])]


PREAMBLE = """\
import { readFileSync, writeSync } from "node:fs";
const data = JSON.parse(readFileSync(0, "utf-8"));
const answer = (value) => {
  const odd = "\\u0001odd:";
  const plain = (key, one) => {
    if (typeof one === "number" && !Number.isFinite(one)) return odd + one;
    if (typeof one === "bigint") return Number(one);
    return ArrayBuffer.isView(one) ? Array.from(one) : one;
  };
  const text = JSON.stringify(value ?? null, plain).replaceAll(/"\\\\u0001odd:([-A-Za-z]+)"/g, "$1");
  const bytes = new TextEncoder().encode(text);
  for (let start = 0; start < bytes.length;) {
    try {
      start += writeSync(1, bytes, start);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
};
"""


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """Run a module in node; it finds `data` as JSON and gives `answer(value)` back as JSON.

    Modules of the page are imported as `"page/engine/draws.js"`. Numbers that are not finite come back too.
    """
    words = find_node()
    folder = tmp_path_factory.mktemp("node")

    def run(script, data=None, timeout=240):
        path = folder / f"script-{len(list(folder.iterdir()))}.mjs"
        path.write_text(PREAMBLE + script.replace('"page/', f'"{PAGE.resolve().as_uri()}/'), encoding="utf-8")
        told = json.dumps(data).encode()
        ran = subprocess.run([*words, str(path)], input=told, capture_output=True, timeout=timeout)
        assert ran.returncode == 0, ran.stderr.decode(errors="replace")
        return json.loads(ran.stdout) if ran.stdout else None

    return run


@pytest.fixture(scope="session")
def modules():
    """The folder of packages from npm, or a skip with its reason."""
    found = HERE / "node_modules"
    if not found.is_dir():
        pytest.skip("no packages from npm: `make test-browser` installs them where npm is")
    return found


@pytest.fixture(scope="session")
def firefox(modules):
    """Visit pages in the system's Firefox; firefox.js explains what a visit is, and what it gives back."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("no Firefox on this machine: apt-get install firefox-esr")
    words = find_node()

    def visit(*visits, dark=False, language="en"):
        asked = {
            "program": program,
            "dark": dark,
            "language": language,
            "visits": [{**one, "address": address_of(one["address"])} for one in visits],
        }
        ran = subprocess.run(
            [*words, str(HERE / "firefox.js")],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=240,
        )
        assert ran.returncode == 0, ran.stderr.decode(errors="replace")
        return json.loads(ran.stdout)

    return visit
