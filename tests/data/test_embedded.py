"""The embedded corpora: how many pairs, always the same ones, and divided as promised."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data import embedded

NAMES = ("en-fr", "en-zh")


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_is_in_two_parts(name: str) -> None:
    parts = [embedded.pairs(name, part) for part in embedded.SPLITS]
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in part} for part in parts)
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_importing_and_reading_pairs_needs_neither_numpy_nor_torch() -> None:
    script = (
        "import sys; from throughtime.data.embedded import pairs; pairs('en-fr');"
        "print(sorted({'numpy', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with refuses("embedded pairs", "'en-ft'", "'en-fr'"):
        embedded.pairs("en-ft")
    with refuses("split", "'trian'", "'train'"):
        embedded.pairs("en-fr", "trian")
    with refuses("series", "'sinus'", "'sine'"):
        embedded.series("sinus")
    with refuses("length", "0"):
        embedded.series("sine", length=0)


@pytest.mark.parametrize(
    ("name", "clean", "deviation"),
    [("sine", np.sin(0.01 * np.arange(1, 1001)), 0.2), ("ramp", np.linspace(0, 10, 1000), 0.5)],
)
def test_series_are_a_slow_wave_and_a_climb_with_noise(
    name: str, clean: object, deviation: float
) -> None:  # R3
    values = embedded.series(name)
    noise = values - clean
    assert (values.shape, values.dtype) == ((1000,), np.float64)
    assert abs(noise.mean()) < 0.15 * deviation
    assert noise.std() == pytest.approx(deviation, rel=0.1)


def test_series_follow_their_seed_and_length() -> None:  # R3
    assert np.array_equal(embedded.series("sine", seed=3), embedded.series("sine", seed=3))
    assert not np.array_equal(embedded.series("sine", seed=3), embedded.series("sine", seed=4))
    assert embedded.series("ramp", length=7).shape == (7,)


def test_english_is_the_story_and_the_english_sides_without_overlap():
    parts = {split: embedded.english(split) for split in embedded.SPLITS}
    everything = [text for part in parts.values() for text in part]
    assert len(everything) == len(set(everything))
    assert parts["train"][: len(embedded.story())] == embedded.story()
    assert len(embedded.story()) == len(set(embedded.story())) > 80
