"""Word vectors from text files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.errors import InputError
from throughtime.text.vocabulary import Vocabulary, read_vectors

VOCABULARY = Vocabulary(["<pad>", "<unk>", "owl", "mouse", "forest"])
ROWS = "owl 1 2 3\nsea 7 7 7\nmouse -1 0.5 1e-3 \nowl 9 9 9\n"


@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_found_rows_are_the_files(tmp_path: Path, header: str, packed: bool) -> None:
    path = tmp_path / ("words.vec.gz" if packed else "words.vec")
    content = (header + ROWS).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    matrix, found = read_vectors(path, VOCABULARY)
    assert found == 2
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix[2], [1, 2, 3])
    np.testing.assert_allclose(matrix[3], [-1, 0.5, 1e-3], rtol=1e-6)
    np.testing.assert_array_equal(matrix[0], 0)


def test_missing_rows_are_random_of_the_same_spread_and_repeatable(tmp_path: Path) -> None:
    path = tmp_path / "words.vec"
    random = np.random.default_rng(1)
    rows = [f"w{n} " + " ".join(map(str, random.normal(0, 0.3, 50))) for n in range(40)]
    path.write_text("\n".join(rows))
    vocabulary = Vocabulary([f"w{n}" for n in range(80)])
    matrix, found = read_vectors(path, vocabulary, seed=4)
    assert found == 40
    assert matrix[40:].std() == pytest.approx(0.3, rel=0.1)
    np.testing.assert_array_equal(matrix, read_vectors(path, vocabulary, seed=4)[0])
    assert not np.array_equal(matrix[40:], read_vectors(path, vocabulary, seed=5)[0][40:])


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"owl 1 2 3\nsea 1 2\n", ("words.vec:2", "2", "3")),
        (b"2 4\nowl 1 2 3\n", ("words.vec:2", "3", "4")),
        (b"owl\n", ("words.vec:1", "0")),
        (b"sea 1 2\nowl 1 two\n", ("words.vec:2", "'two'")),
        (b"owl 1 nan\n", ("words.vec:1",)),
        (b"sea 1 2\n", ("words.vec",)),
        (b"", ("words.vec",)),
        (b"sea 1 2\n\xff 1 2\n", ("words.vec:2", "UTF-8")),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path: Path, content: bytes, facts: tuple[str, ...]) -> None:
    path = tmp_path / "words.vec"
    path.write_bytes(content)
    with refuses(*facts):
        read_vectors(path, VOCABULARY)


def test_broken_gzip_and_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "words.vec.gz"
    with refuses("words.vec.gz"):
        read_vectors(path, VOCABULARY)
    path.write_bytes(gzip.compress(ROWS.encode() * 999)[:-20])
    with pytest.raises(InputError, match=r"words\.vec\.gz:\d+: .*gzip"):
        read_vectors(path, VOCABULARY)
    path.write_bytes(b"plain text")
    with refuses("words.vec.gz:1"):
        read_vectors(path, VOCABULARY)
