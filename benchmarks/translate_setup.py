"""What translate_cpu measures: the data, the model, both sides' configurations, JoeyNMT's environment."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from throughtime.data.datasets import open_dataset
from throughtime.errors import ThroughtimeError
from throughtime.text.codec import Codec

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "benchmarks"
"""What is made once and used again: JoeyNMT's environment, and the model that both translate with."""
DATA, SOURCE, TARGET = "multi30k/tok", "en", "de"
ROWS, EMBEDDING, ENCODER, DECODER = 64, 256, 256, 512
DROPOUT, RATE, CLIP, SEED = 0.2, 1e-3, 1.0, 0
ALPHA, MAX_LENGTH = 0.75, 50
SPECIALS = ("<unk>", "<pad>", "<bos>", "<eos>")
JOEYNMT = ("joeynmt==2.3.0", "importlib_metadata")  # the last one it forgets to ask for
TRIES, PAUSE = 3, 10.0
"""How often its installation is tried, and the seconds between: an index may fail once."""


def write_data(folder: Path, sentences: int | None) -> None:
    """Both splits, a file a language, and the vocabularies that both sides use."""
    dataset = open_dataset(DATA, source=SOURCE, target=TARGET, download=False)
    for side, language in (("source", SOURCE), ("target", TARGET)):
        for split, name, most in (("train", "train", None), ("valid", "dev", sentences)):
            texts = list(itertools.islice(dataset.texts(split, side), most))
            (folder / f"{name}.{language}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
        codec = Codec.build(dataset.texts("train", side), "space", min_freq=2, reserved=SPECIALS)
        codec.save(folder / side)
        words = list(codec.vocabulary)[len(SPECIALS) :]
        (folder / f"words.{language}").write_text("".join(f"{word}\n" for word in words), "utf-8")


def our_config(folder: Path) -> dict[str, Any]:
    """What our side is told."""
    settings = {
        "data": DATA,
        "source": SOURCE,
        "target": TARGET,
        "tokens": "space",
        "structure": "attention",  # with input feeding, as JoeyNMT's
        "shared": False,
        "tied": False,
        "embedding_size": EMBEDDING,
        "encoder_size": ENCODER,
        "hidden_size": DECODER,
        "embedding_dropout": DROPOUT,
        "output_dropout": DROPOUT,
        "label_smoothing": 0.0,
        "batch_size": ROWS,
        "optimizer": "adam",
        "lr": RATE,
        "schedule": "constant",
        "clip": CLIP,
        "length_penalty": ALPHA,
        "seed": SEED,
        "device": "cpu",
    }
    return {"folder": str(folder), "settings": settings}


def joeynmt_config(folder: Path) -> dict[str, Any]:
    """JoeyNMT's configuration of the same. It validates never: that is asked of it apart."""

    def language(name: str) -> dict[str, Any]:
        return {"lang": name, "max_length": 100, "level": "word", "voc_file": str(folder / f"words.{name}")}

    symbols: dict[str, Any] = {f"{mark.strip('<>')}_token": mark for mark in SPECIALS}
    symbols |= {f"{mark.strip('<>')}_id": number for number, mark in enumerate(SPECIALS)}
    embeddings = {"embedding_dim": EMBEDDING, "dropout": DROPOUT}
    return {
        "name": "multi30k",
        "model_dir": str(folder / "joeynmt"),
        "use_cuda": False,
        "random_seed": SEED,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": language(SOURCE),
            "trg": language(TARGET),
            "special_symbols": symbols,
        },
        "testing": {
            "batch_size": ROWS,  # its own choice, too
            "beam_alpha": ALPHA,
            "max_output_length": MAX_LENGTH,
            "min_output_length": 0,
            "generate_unk": False,
        },
        "training": {
            "normalization": "tokens",
            "optimizer": "adam",
            "learning_rate": RATE,
            "learning_rate_min": 0.0,
            "clip_grad_norm": CLIP,
            "scheduling": "exponential",  # without one its log fails; with a factor of 1 nothing changes
            "decrease_factor": 1.0,
            "batch_size": ROWS,
            "epochs": 1_000,
            "logging_freq": 100,
            "validation_freq": 100_000_000,
        },
        "model": {
            "encoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": embeddings,
                "hidden_size": ENCODER,
                "bidirectional": True,
                "num_layers": 1,
            },
            "decoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": embeddings,
                "hidden_size": DECODER,
                "hidden_dropout": DROPOUT,
                "num_layers": 1,
                "input_feeding": True,
                "init_hidden": "last",
                "attention": "bahdanau",
            },
        },
    }


def joeynmt_python() -> Path:
    """The python of JoeyNMT's environment, with the torch that we have."""
    version = torch.__version__.partition("+")[0]
    packages = (f"torch=={version}", *JOEYNMT)
    return python_with("THROUGHTIME_JOEYNMT", f"joeynmt-2.3.0-torch-{version}", packages)


def python_with(variable: str, name: str, packages: Iterable[str]) -> Path:
    """The python that a variable names, or that of an environment of peers, made where there is none."""
    if given := os.environ.get(variable):
        if not Path(given).is_file():
            raise ThroughtimeError(f"{variable} is {given}, which is no file")
        return Path(given)
    folder = OUT / name
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python
    print(f"making an environment for peers in {folder}", file=sys.stderr)
    try:
        venv.create(folder, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ThroughtimeError(f"the environment {folder} could not be made: {error}") from None
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages]
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE)
        if not subprocess.run(install, check=False, stdout=sys.stderr).returncode:
            complete.touch()
            return python
    raise ThroughtimeError(f"the packages of {folder} could not be installed; {variable} may name a python")
