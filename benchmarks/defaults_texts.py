"""The texts of benchmarks/defaults.py, from the catalogue and from packages of Debian, as plain files.

A set is a folder with the files `train`, `valid` and `test`. Sets of `HELD_OUT` are for a last look: nobody
should tune on them. A set whose source cannot be had, as Debian's packages elsewhere, is left out and named.
"""

from __future__ import annotations

import csv
import functools
import gzip
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.translate_setup import OUT
from throughtime.data.datasets import open_dataset
from throughtime.errors import ThroughtimeError

Texts = list[str]
Labelled = list[tuple[str, str]]
Tagged = list[tuple[Sequence[str], Sequence[str]]]
LISTS = (
    "wbulgarian wdanish wdutch wngerman wirish wfaroese wukrainian wportuguese wnorwegian wamerican "
    "wcatalan wswedish wfrench witalian wspanish wesperanto wgalician-minimos wpolish"
)
PACKAGES = LISTS.split() + "fortunes fortunes-zh fortunes-cs fortunes-de fortunes-es fortunes-ru".split()
PACKAGES += ["fortunes-min", "fortunes-pl", "manpages-de", "manpages-fr", "manpages-pl"]
csv.field_size_limit(1 << 20)  # a manual page may be longer than the 131,072 characters of the default
LETTERS = re.compile(r"[^\W\d_]{3,14}")
ROFF = re.compile(r"\\f\(?\w\w?|\\[*(]\w\w|\\.|^[.'].*$", re.MULTILINE)


@functools.cache
def debian() -> Path:
    """The files of Debian's packages, fetched and unpacked where they are not."""
    folder = OUT / "defaults" / "debian"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"fetching {len(PACKAGES)} packages of Debian into {folder}", file=sys.stderr)
        try:
            subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder, check=True)
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ThroughtimeError(f"packages of Debian could not be had: {error}") from None
        (folder / "complete").touch()
    return folder / "usr" / "share"


def fortunes(*names: str) -> Labelled:
    """The sayings of each file, with its name."""
    sayings = []
    for name in names:
        text = (debian() / "games" / "fortunes" / name).read_text("utf-8", errors="replace")
        joined = (
            " ".join(saying.replace("\b", "").split()) for saying in re.split(r"^%\n", text, flags=re.M)
        )
        sayings += [(saying, Path(name).name) for saying in joined if len(saying) > 15]
    return sayings


def pages(language: str, *sections: str) -> Labelled:
    """The manual pages of a language, each as one text with its section."""
    texts = []
    for section in sections:
        for path in sorted((debian() / "man" / language / f"man{section}").glob("*.gz")):
            text = " ".join(
                ROFF.sub(" ", gzip.decompress(path.read_bytes()).decode("utf-8", "replace")).split()
            )
            if len(text) > 200:
                texts.append((text, f"section {section}"))
    return texts


def words(each: int, *languages: str) -> Labelled:
    """Words of Debian's lists in lower case, with their language; each word once."""
    labelled: dict[str, str] = {}
    for language in languages:
        data = (debian() / "dict" / language).resolve().read_bytes()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        distinct = sorted({word for line in text.split("\n") if LETTERS.fullmatch(word := line.lower())})
        labelled |= dict.fromkeys(Random(language).sample(distinct, min(each, len(distinct))), language)
    return list(labelled.items())


def levels() -> Labelled:
    """Chinese sentences with the level of the examination that they are for."""
    records = open_dataset("hsk-en-zh").records("train")
    return [(record.mandarin, f"level {record.hsk}") for record in records]


def intents(split: str) -> Labelled:
    return [(" ".join(one.words), one.label) for one in open_dataset("snips-slots").records(split)]


def tagged(name: str, split: str) -> Tagged:
    return [(one.words, one.tags) for one in open_dataset(name).records(split)]


def restore_capitals(texts: Iterable[str]) -> Tagged:
    """Words in lower case, tagged with the case that they had: as many tags as one likes, from any text."""
    rows: Tagged = []
    for text in texts:
        found = re.findall(r"\w+|[^\w\s]", text)
        kinds = ["upper" if w.isupper() else "title" if w[:1].isupper() else "lower" for w in found]
        if len(found) > 3:
            rows.append(([word.lower() for word in found], kinds))
    return rows


def spoil(rows: Tagged, rate: float, seed: int) -> Tagged:
    """Sentences as they are typed in haste: letters left out, doubled and swapped, capitals at random."""
    draws = Random(seed)

    def spoil_word(word: str) -> str:
        if draws.random() < rate and len(word) > 3:
            at = draws.randrange(1, len(word) - 1)
            word = draws.choice((word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:],
                                 word[:at] + word[at + 1] + word[at] + word[at + 2 :]))  # fmt: skip
        return word.upper() if draws.random() < 0.1 else word.title() if draws.random() < 0.3 else word

    return [([spoil_word(word) for word in sentence], tags) for sentence, tags in rows]


def sides(name: str, side: str, split: str = "train") -> Texts:
    """Distinct texts of one side of a corpus."""
    return list(dict.fromkeys(open_dataset(name).texts(split, side)))


def lines(name: str, split: str, most: int | None = None) -> Texts:
    texts = (line for text in open_dataset(name).texts(split) for line in text.split("\n") if line.strip())
    return list(itertools.islice(texts, most))


def sayings(*names: str) -> Texts:
    """Sayings of files in an order drawn once, cut to two million letters."""
    texts = list(dict.fromkeys(text for text, _ in fortunes(*names)))
    Random(0).shuffle(texts)
    total = itertools.accumulate(map(len, texts))
    return [text for text, letters in zip(texts, total, strict=True) if letters < 2_000_000]


def part(rows: list, train: int, test: int) -> tuple[list, list]:
    """Rows for training and others for the test, drawn once."""
    drawn = Random(0).sample(rows, min(len(rows), train + test))
    test = min(test, len(drawn) // 4)
    return drawn[test:], drawn[:test]


def cut(texts: list) -> tuple[list, list]:
    """A running text: its first nine tenths, and the rest."""
    return texts[: len(texts) * 9 // 10], texts[len(texts) * 9 // 10 :]


RUSSIAN = ("love", "life", "knowledge", "polit", "education", "flirt", "murphy", "book", "friendship")
Make = Callable[[], tuple[list, list]]
LANGUAGES = "bulgarian danish dutch ngerman faroese ukrainian portuguese nynorsk american-english catalan "
LANGUAGES += "swedish french italian spanish esperanto galician-minimos polish irish"
ENGLISH = "art computers cookie definitions education food humorists law literature love men-women".split()
CLASSIFY: dict[str, Make] = {
    "words": lambda: part(words(1100, *LANGUAGES.split()), 14_000, 3_000),
    "levels": lambda: part(levels(), 5_800, 2_000),
    "intents": lambda: (intents("train")[:2000], intents("test")),
    "fortunes": lambda: part(
        fortunes(*ENGLISH, "politics", "science", "songs-poems", "wisdom", "work"), 6_000, 1_500
    ),
    "pages-de": lambda: part(pages("de", "1", "8"), 540, 180),
    "words-few": lambda: part(words(600, "danish", "nynorsk", "swedish", "faroese"), 1_200, 600),
    "russian": lambda: part(fortunes(*(f"ru/{name}" for name in RUSSIAN)), 3_000, 1_000),
    "pages-fr": lambda: part(pages("fr", "1", "7", "8"), 400, 120),
    "spanish": lambda: part(
        fortunes(*(f"es/{n}.fortunes" for n in "arte humanos ciencia leydemurphy libertad".split())), 900, 300
    ),
    "slavic": lambda: part(words(3000, "bulgarian", "ukrainian"), 4_000, 1_000),
}
LANGUAGE: dict[str, Make] = {
    "novel": lambda: cut(lines("timemachine", "all")),
    "plays": lambda: cut(lines("tinyshakespeare", "all")),
    "ptb": lambda: (lines("ptb", "train", 14_000), lines("ptb", "test")),
    "russian": lambda: cut(sayings(*(f"ru/{name}" for name in RUSSIAN))),
    "wikitext": lambda: (lines("wikitext-2", "train", 4_000), lines("wikitext-2", "test", 800)),
    "czech": lambda: cut(sayings("cs/zemeplocha", "cs/klasik-cz", "cs/market")),
    "chinese": lambda: cut(sayings("chinese")),
    "pages-pl": lambda: part([text for text, _ in pages("pl", "1", "8")], 300, 40),
}
TAG: dict[str, Make] = {
    "ewt": lambda: (tagged("ud-english-ewt", "train"), tagged("ud-english-ewt", "test")),
    "ewt-few": lambda: (tagged("ud-english-ewt", "train")[:1000], tagged("ud-english-ewt", "test")[:1000]),
    "slots-few": lambda: (tagged("snips-slots", "train")[:700], tagged("snips-slots", "test")),
    "slots-noisy": lambda: (
        spoil(tagged("snips-slots", "train")[:3400], 0.3, 1),
        spoil(tagged("snips-slots", "test"), 0.3, 2),
    ),
    "capitals-de": lambda: part(restore_capitals(sides("multi30k/raw", "target")), 3_000, 1_000),
    "capitals-ru": lambda: part(restore_capitals(sayings(*(f"ru/{name}" for name in RUSSIAN))), 3_000, 800),
    "slots-noisy-few": lambda: (
        spoil(tagged("snips-slots", "train")[5000:6500], 0.5, 3),
        spoil(tagged("snips-slots", "test"), 0.5, 4),
    ),
    "ewt-middle": lambda: (tagged("ud-english-ewt", "train")[4000:8000], tagged("ud-english-ewt", "valid")),
}
FILL: dict[str, Make] = {
    "tatoeba": lambda: part(sides("tatoeba-fra-eng", "source"), 30_000, 2_000),
    "captions": lambda: (sides("multi30k/tok", "source"), sides("multi30k/tok", "source", "test")),
    "ptb": lambda: (lines("ptb", "train", 14_000), lines("ptb", "test", 2_000)),
    "russian": lambda: part(sayings(*(f"ru/{name}" for name in RUSSIAN)), 8_000, 1_000),
    "french": lambda: part(sides("tatoeba-fra-eng", "target"), 15_000, 2_000),
    "captions-de": lambda: (
        sides("multi30k/tok", "target")[:10_000],
        sides("multi30k/tok", "target", "test"),
    ),
    "czech": lambda: part(sayings("cs/zemeplocha", "cs/klasik-cz", "cs/market"), 8_000, 1_000),
    "wikitext": lambda: (lines("wikitext-2", "train", 8_000), lines("wikitext-2", "test", 800)),
}
SETS = {"classify": CLASSIFY, "language": LANGUAGE, "tag": TAG, "fill": FILL}
HELD_OUT = {
    "classify": {"russian", "pages-fr", "spanish", "slavic", "words-few"},
    "language": {"czech", "chinese", "pages-pl"},
    "tag": {"capitals-ru", "slots-noisy-few", "ewt-middle"},
    "fill": {"french", "captions-de", "czech", "wikitext"},
}
SUFFIX = {"classify": "csv", "language": "txt", "tag": "conll", "fill": "txt"}


def write(task: str, path: Path, rows: list) -> None:
    """Write rows as the task reads them; sentences for blanks with spaces between all tokens."""
    if task == "fill":
        rows = [" ".join(re.findall(r"<unk>|\w+|[^\w\s]", row)) for row in rows]
    if task == "classify":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
        return
    if task == "tag":
        rows = ["".join(f"{word}\t{tag}\n" for word, tag in zip(*row, strict=True)) for row in rows]
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")


def read_table(path: Path) -> Labelled:
    """The rows of a table of two columns, without its head."""
    with path.open(newline="", encoding="utf-8") as file:
        return [(row[0], row[1]) for row in csv.reader(file)][1:]


def separate_validation(task: str, train: list, test: list) -> dict[str, list]:
    """Each tenth row for validation, of a running text the end; peers, who need none, train on these, too."""
    if task == "language":
        return {"train": train[: -len(train) // 20], "valid": train[-len(train) // 20 :], "test": test}
    rest = [row for number, row in enumerate(train) if number % 10 != 9]
    return {"train": rest, "valid": train[9::10], "test": test}


def make(task: str, folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Make the sets that are not there; yield the folder of each."""
    for name in names:
        place = folder / task / name
        if not (place / f"test.{SUFFIX[task]}").exists():
            place.mkdir(parents=True, exist_ok=True)
            try:
                halves = SETS[task][name]()
            except ThroughtimeError as error:
                print(f"{task} {name} is left out: {error}", file=sys.stderr)
                continue
            for split, rows in separate_validation(task, *halves).items():
                write(task, place / f"{split}.{SUFFIX[task]}", rows)
        yield place
