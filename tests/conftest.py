"""What all tests share: where real corpora lie, and the command run inside this process."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: no test is judged by its time.
settings.register_profile(
    "untimed",
    settings.default,
    deadline=None,
    max_examples=int(os.environ.get("THROUGHTIME_EXAMPLES", "10")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
# Before torch is imported: tests are tiny, and threads that wait for each other crawl on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As in an activated environment, so that the commands which the program suggests begin with `throughtime`.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
# TensorBoard is tested by name; elsewhere its event files would only slow each training down.
sys.modules["torch.utils.tensorboard"] = None  # type: ignore[assignment]


class SkipTestsOfTorch(MetaPathFinder):
    """Where torch is not installed, importing it skips the test, or the file of tests, that needs it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Skip at the import of torch, and leave all other imports to the next finder."""
        if fullname == "torch":
            pytest.skip("torch is not installed", allow_module_level=True)


if importlib.util.find_spec("torch") is None:
    sys.meta_path.insert(0, SkipTestsOfTorch())


EMULATED = (
    *(f"tests/gpu/test_{name}" for name in "beam cell chain decoder factors linear".split()),
    *(f"tests/gpu/test_{name}" for name in "persistent softmax tally weight".split()),
)
"""The tests whose kernels a C++ compiler builds for the CPU, one for each variant of a test."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the first of every THROUGHTIME_EMULATED variants of a test of emulated kernels.

    Tests of real GPUs, which are quick or skipped, have `gpu` in their names, and run in all variants.
    """
    share = int(os.environ.get("THROUGHTIME_EMULATED", "1"))
    numbers: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        emulated = item.nodeid.startswith(EMULATED) and "gpu" not in test.removeprefix("tests/gpu/")
        (left if emulated and numbers[test] % share else kept).append(item)
        numbers[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the thousands of tests out of garbage collection, which would go through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_pictures() -> Iterator[Callable[..., None]]:
    """Trainings draw no learning curve, which takes longer than a tiny training; `pictures` draws them."""
    if importlib.util.find_spec("torch") is None:
        yield lambda: None
        return
    from throughtime.fit import run

    draw, run._draw = run._draw, lambda *_: None
    yield draw
    run._draw = draw


@pytest.fixture
def pictures(_no_pictures: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw their learning curve, as they do for a user."""
    monkeypatch.setattr("throughtime.fit.run._draw", _no_pictures)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora, or a skip with its reason."""
    folder = os.environ.get("THROUGHTIME_DATA")
    if not folder:
        pytest.skip("THROUGHTIME_DATA is not set: no real corpora on this machine")
    return Path(folder)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernels of losses and updates run on a GPU that is none."""
    from tests.emulated import machine

    from throughtime.gpu import chain, driver, factors, softmax, tally

    if machine.COMPILER is None:
        pytest.skip("no g++ on this machine")
    monkeypatch.setattr(driver, "build", machine.build)
    for kernels in (chain, factors, softmax, tally):
        kernels._prepare_kernel.cache_clear()
    yield
    for kernels in (chain, factors, softmax, tally):
        kernels._prepare_kernel.cache_clear()


@pytest.fixture
def emulated_decoder(emulated: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So do the kernels of a decoder, with fewer threads than columns and fewer warps than positions."""
    from throughtime.gpu import decoder

    for name in ("FORWARD_WARPS", "BACKWARD_WARPS", "GATE_WARPS"):
        monkeypatch.setattr(decoder, name, 2)
    caches = (decoder._build_attention, decoder._prepare_gates)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def allow_tf32() -> Iterator[Callable[[bool], None]]:
    """Choose whether products on a GPU may round to tf32; set back after the test.

    monkeypatch cannot set it back: torch computes this attribute, and there is none to delete.
    """
    import torch

    before = torch.backends.cuda.matmul.allow_tf32

    def choose(allowed: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = allowed

    yield choose
    choose(before)


@dataclass
class Ran:
    """One run of the command: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@pytest.fixture
def throughtime(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command with these words, as `main` would."""
    from throughtime.cli.main import main

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run
