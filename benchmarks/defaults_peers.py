"""The peers of benchmarks/defaults.py: the simple methods that anybody tries first, on the same rows.

Runs in the peers' environment and imports nothing of ours: `python -m benchmarks.defaults_peers TASK FOLDER`.
Prints one object: for each peer its CPU seconds and its score, or for forecasts its answers.
"""

from __future__ import annotations

import collections
import csv
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

csv.field_size_limit(1 << 20)  # a manual page may be longer than the 131,072 characters of the default
LEVELS = (80, 95)
Answers = dict[str, dict[str, Any]]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def read_rows(folder: Path, split: str) -> list[list[str]]:
    """The rows of a table of texts, without its head; `train` is all that is not the test."""
    rows = []
    for name in ("train", "valid") if split == "train" else (split,):
        if (path := folder / f"{name}.csv").exists():
            with path.open(newline="", encoding="utf-8") as file:
                rows += list(csv.reader(file))[1:]
    return rows


def read_blocks(folder: Path, split: str, suffix: str) -> list[str]:
    """The sentences of a file of lines, or of blocks with a word a line."""
    names = ("train", "valid") if split == "train" else (split,)
    paths = [path for name in names if (path := folder / f"{name}.{suffix}").exists()]
    return [
        block
        for path in paths
        for block in path.read_text("utf-8").split("\n\n" if suffix == "conll" else "\n")
        if block
    ]


def forecast(folder: Path) -> Answers:
    """AutoARIMA, AutoETS and others of statsforecast, with their intervals."""
    from statsforecast import models

    about = json.loads((folder / "about.json").read_text())
    values = np.array([float(row[1]) for row in read_rows(folder, "train")])
    season = about["season"] if len(values) >= 2 * about["season"] else 1
    peers = {
        "ARIMA": models.AutoARIMA(season_length=season),
        "ETS": models.AutoETS(season_length=season),
        "Theta": models.AutoTheta(season_length=season),
        "CES": models.AutoCES(season_length=season),
        "croston": models.CrostonSBA(),
        "snaive": models.SeasonalNaive(season_length=season) if season > 1 else models.Naive(),
    }
    answers: Answers = {}
    for name, model in peers.items():
        levels = {} if name == "croston" else {"level": list(LEVELS)}
        try:
            made, cpu = timed(lambda m=model, k=levels: m.forecast(y=values, h=about["horizon"], **k))
        except Exception as error:  # a peer may refuse a series; the others go on
            print(f"{folder.name}: {name}: {error}", file=sys.stderr)
            continue
        answers[name] = {"cpu": cpu, "mean": np.asarray(made["mean"]).tolist()}
        for level in LEVELS if levels else ():
            answers[name][str(level)] = [
                np.asarray(made[f"{side}-{level}"]).tolist() for side in ("lo", "hi")
            ]
    return answers


def classify(folder: Path) -> Answers:
    """TF-IDF of words, of letters, and of both, each with logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    def word() -> TfidfVectorizer:
        return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")

    def letters() -> TfidfVectorizer:
        return TfidfVectorizer(
            analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True, max_features=300_000
        )

    (texts, labels), (asked, truth) = (
        zip(*read_rows(folder, split), strict=True) for split in ("train", "test")
    )
    answers: Answers = {}
    for name, features in {"words": [word()], "letters": [letters()], "both": [word(), letters()]}.items():
        pipe = make_pipeline(make_union(*features), LogisticRegression(C=10, max_iter=300))
        guesses, cpu = timed(lambda p=pipe: p.fit(texts, labels).predict(asked))
        answers[name] = {"cpu": cpu, "score": 100 * float(np.mean(guesses == np.array(truth)))}
    return answers


def word_features(words: Sequence[str], at: int) -> list[str]:
    """Plain features: the word, its shape, its beginnings and ends, and its neighbours."""

    def shape(word: str) -> str:
        return "".join(
            "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word
        )

    word, features = words[at], ["bias"]
    features += [f"w={word}", f"l={word.lower()}", f"s={shape(word)[:8]}", f"d={word.isdigit()}"]
    features += [f"p{n}={word[:n].lower()}" for n in (1, 2, 3)] + [
        f"e{n}={word[-n:].lower()}" for n in (1, 2, 3, 4)
    ]
    for step in (-2, -1, 1, 2):
        there = words[at + step] if 0 <= at + step < len(words) else "|"
        features += [
            f"{step}l={there.lower()}",
            f"{step}s={shape(there)[:4]}",
            f"{step}e={there[-3:].lower()}",
        ]
    return features


def tag(folder: Path) -> Answers:
    """A conditional random field by CRFsuite; prints the tags, which our side scores as its own."""
    import pycrfsuite

    def read(split: str) -> list[list[list[str]]]:
        return [
            [line.split("\t") for line in block.strip().split("\n")]
            for block in read_blocks(folder, split, "conll")
        ]

    def featured(sentence: list[list[str]]) -> list[list[str]]:
        words = [word for word, _ in sentence]
        return [word_features(words, at) for at in range(len(words))]

    model = folder / "model.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01, "max_iterations": 80})

    def train() -> list[list[str]]:
        for sentence in read("train"):
            trainer.append(featured(sentence), [tag for _, tag in sentence])
        trainer.train(str(model))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(model))
        return [tagger.tag(featured(sentence)) for sentence in read("test")]

    tags, cpu = timed(train)
    model.unlink()
    return {"crfsuite": {"cpu": cpu, "tags": tags}}


class Trigrams:
    """Counted continuations of two words and of one, with absolute discounting."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self.tables: list[dict[Any, collections.Counter[str]]] = [
            collections.defaultdict(collections.Counter) for _ in range(3)
        ]
        for sentence in sentences:
            words = ("|", "|", *sentence)
            for at in range(2, len(words)):
                for length in range(3):
                    self.tables[length][words[at - length : at]][words[at]] += 1
        self.ids = {word: number for number, word in enumerate(self.tables[0][()])}

    def log_probs(self, context: Sequence[str]) -> np.ndarray:
        """Ln P of every word after two others."""
        chances = np.full(len(self.ids), 1 / len(self.ids))
        for length in range(3):
            if counts := self.tables[length].get(tuple(context[2 - length :])):
                total = sum(counts.values())
                mixed = chances * (0.75 * len(counts) / total)
                mixed[[self.ids[word] for word in counts]] += (
                    np.fromiter(counts.values(), float) - 0.75
                ) / total
                chances = mixed
        return np.log(chances)


def fill(folder: Path) -> Answers:
    """A trigram from the left and one from the right, multiplied, on the blanks of blanks.json."""

    def train() -> list[str]:
        sentences = [line.split() for line in read_blocks(folder, "train", "txt")]
        left, right = Trigrams(sentences), Trigrams(sentence[::-1] for sentence in sentences)
        order = np.array([right.ids[word] for word in left.ids])
        words, alone = list(left.ids), left.log_probs(("", ""))
        guesses = []
        for sentence, at in json.loads((folder / "blanks.json").read_text()):
            before, after = ["|", "|", *sentence[:at]][-2:], ["|", "|", *sentence[:at:-1]][-2:]
            guesses.append(
                words[int((left.log_probs(before) + right.log_probs(after)[order] - alone).argmax())]
            )
        return guesses

    guesses, cpu = timed(train)
    truth = [sentence[at] for sentence, at in json.loads((folder / "blanks.json").read_text())]
    right = np.mean([guess == word for guess, word in zip(guesses, truth, strict=True)])
    return {"trigrams": {"cpu": cpu, "score": 100 * float(right)}}


def vectors(folder: Path) -> Answers:
    """The nearest neighbour by dynamic time warping, and MiniRocket with ridge, both by aeon."""
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    def read(split: str) -> tuple[list[np.ndarray], np.ndarray]:
        grouped: dict[str, list[list[str]]] = collections.defaultdict(list)
        for row in read_rows(folder, split):
            grouped[row[0]].append(row)
        series = [np.array([row[2:-1] for row in rows], dtype=float).T for rows in grouped.values()]
        return series, np.array([rows[0][-1] for rows in grouped.values()])

    (series, labels), (asked, truth) = read("train"), read("test")
    longest = max(one.shape[1] for one in series + asked)
    padded = [
        np.stack([np.pad(x, ((0, 0), (0, longest - x.shape[1])), "edge") for x in some])
        for some in (series, asked)
    ]
    peers = {
        "1-NN DTW": (
            KNeighborsTimeSeriesClassifier(distance="dtw", distance_params={"window": 0.1}),
            series,
            asked,
        ),
        "MiniRocket": (MiniRocketClassifier(random_state=0), *padded),
    }
    answers: Answers = {}
    for name, (model, known, new) in peers.items():
        guesses, cpu = timed(lambda m=model, k=known, n=new: m.fit(k, labels).predict(n))
        answers[name] = {"cpu": cpu, "score": 100 * float(np.mean(guesses == truth))}
    return answers


PEERS = {work.__name__: work for work in (forecast, classify, tag, fill, vectors)}

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(PEERS[sys.argv[1]](Path(sys.argv[2]))))
