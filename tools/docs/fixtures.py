"""Files and runs that pages use without creating them; made when a page first names them."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from pathlib import Path
from threading import Lock

from tools.docs.commands import mentions, shortened, words

PLACES = ("Oslo", "Lima", "New York", "Cape Town", "Quito", "Port Louis", "Rome", "San Marino")
PEOPLE = ("We", "They", "Our neighbours", "Both of you", "The twins")
DEEDS = ("saw", "left", "love", "know", "drove through")


def _tagged_places() -> str:
    lines = []
    for who in PEOPLE:
        for deed in DEEDS:
            for place in PLACES:
                lines += [f"{word}\tO" for word in f"{who} {deed}".split()]
                first, *rest = place.split()
                lines += [f"{first}\tB-LOC", *(f"{word}\tI-LOC" for word in rest), ""]
    return "\n".join(lines) + "\n"


def _daily_sales() -> str:
    first = datetime.date(2023, 1, 1)
    rows = [
        f"{first + datetime.timedelta(n)},{100 + n // 10 + (n % 7) ** 2 + n * n % 11}" for n in range(400)
    ]
    return "\n".join(["ds,y", *rows]) + "\n"


CARDS = (
    ("We drink tea.", "我们喝茶。", "wǒ men hē chá。"),
    ("The dog sleeps.", "狗在睡觉。", "gǒu zài shuì jiào。"),
)
TOPICS = "rain snow freeze clear thunder hail drizzle storm".split()

RISING = (41.1, 44.9, 52.3, 55.8, 58.4, 61.2, 63.9, 66.8, 70.7)
DISHES = "soup cake tea bread fish rice salad stew pie curry".split()
OPINIONS = "awful poor good lovely".split()

FILES = {
    "broken.tsv": "Good morning.\tBonjour.\nGood night.\n",
    "чехов.txt": "Дождь шёл всю ночь.\nУтром сад был тих и светел.\n",
    "english.txt": "She likes tea.\n\nWhere is the station?\n",
    "translations.txt": "a cat sat on the mat\nthere is a dog\n",
    "first.txt": "the cat is on the mat\nthere was a dog\n",
    "second.txt": "a cat sat on a mat\n\n",
    "hsk.txt": "".join(f"english: {e}\nhsk: 1\nmandarin: {m}\npinyin: {p}\n--\n" for e, m, p in CARDS),
    "topics.csv": "text,label\n" + "".join(f"will it {w} ?,weather\nplay {w} songs,music\n" for w in TOPICS),
    "requests.csv": "text,label\n"
    + "".join(f"will it {w} ?,GetWeather\nplay {w} songs,PlayMusic\n" for w in TOPICS),
    "slashes.csv": "ds,y\n" + "".join(f"0{day}/01/2022,{y}\n" for day, y in enumerate(RISING, 1)),
    "ratings.csv": "review,stars\n"
    + "".join(
        f"the {dish} was {word},{stars}\n" for dish in DISHES for stars, word in enumerate(OPINIONS, 1)
    ),
    "odd.csv": "id,prose,verdict\n1,the soup was cold,bad\n2,what a lovely evening,good\n",
    "places.conll": _tagged_places(),
    "sales.csv": _daily_sales(),
}

TRANSLATE = "throughtime train translate --data pairs.tsv --source en --target fr"

# The command that makes each fixture; fixtures that it names are made before.
MADE = {
    "pairs.tsv": "throughtime data convert embedded/en-fr --out pairs.tsv",
    "swapped.tsv": """awk -F '\\t' '{print $2 "\\t" $1}' pairs.tsv > swapped.tsv""",
    "book.txt": "throughtime data convert embedded/english --out book.tsv && cut -f 1 book.tsv > book.txt",
    "runs/en-fr": f"{TRANSLATE} --out runs/en-fr",
    "runs/other": f"{TRANSLATE} --seed 2 --out runs/other",
    "runs/ptb": "throughtime train language --data ptb --set max_size=500 --out runs/ptb",
    "runs/english": "throughtime train language --data embedded/english --out runs/english",
    "runs/letters": "throughtime train language --data embedded/english --set tokens=char --out runs/letters",
    "runs/fill-in": "throughtime train fill --data embedded/english --out runs/fill-in",
    "runs/blanks": "throughtime train fill --data embedded/english --out runs/blanks",
    "runs/slots": "throughtime train tag --data places.conll --out runs/slots",
    "runs/sine": "throughtime train forecast --data embedded/sine --epochs 2 --out runs/sine",
    "runs/sales": "throughtime train forecast --data sales.csv --epochs 2 --out runs/sales",
    "runs/topics": "throughtime train classify --data topics.csv --out runs/topics",
    "runs/requests": "throughtime train compose --data requests.csv --out runs/requests",
    "runs/words": "throughtime train ngram --data embedded/english --tokens word --out runs/words",
    "runs/damaged": "cp -r runs/letters runs/damaged && head -c 9 runs/letters/config.json "
    "> runs/damaged/model.safetensors",
    "exported/novel": "throughtime export runs/letters --out exported/novel",
    "exported/slots": "throughtime export runs/slots --out exported/slots",
    "exported/topics": "throughtime export runs/topics --out exported/topics",
    "exported/blanks": "throughtime export runs/blanks --out exported/blanks",
    "exported/load": "throughtime export runs/sine --out exported/load",
}


class FixtureError(RuntimeError):
    """A fixture could not be made."""


class Fixtures:
    """Makes each fixture once in its own folder, and copies it to the pages that name it."""

    def __init__(self, folder: Path, environment: dict[str, str], absent: set[str]) -> None:
        self._folder, self._environment = folder, environment
        self._locks = {path: Lock() for path in (*FILES, *MADE)}
        self.absent = absent

    def lacking(self, text: str, makes: list[str], page: Path) -> str | None:
        """A missing corpus that a fixture named in the text needs, or None."""
        return next((name for path in self._missing(text, makes, page) for name in self._corpora(path)), None)

    def put(self, text: str, makes: list[str], page: Path) -> list[str]:
        """Copy the fixtures that a text names and does not make itself into the page's folder."""
        missing = self._missing(text, makes, page)
        for path in missing:
            (page / path).parent.mkdir(parents=True, exist_ok=True)
            kept = self._made(path)
            (shutil.copytree if kept.is_dir() else shutil.copy)(kept, page / path)
        return missing

    def _missing(self, text: str, makes: list[str], page: Path) -> list[str]:
        wanted = [path for path in (*FILES, *MADE) if path not in makes and mentions(text, path)]
        return [path for path in wanted if not (page / path).exists()]

    def _corpora(self, path: str) -> list[str]:
        return [name for name in words(MADE.get(path, "")) if name in self.absent]

    def _made(self, path: str) -> Path:
        with self._locks[path]:
            kept = self._folder / path
            if kept.exists():
                return kept
            kept.parent.mkdir(parents=True, exist_ok=True)
            if path in FILES:
                kept.write_text(FILES[path], encoding="utf-8")
                return kept
            command = MADE[path]
            for other in (*FILES, *MADE):
                if other != path and mentions(command, other):
                    self._made(other)
            done = subprocess.run(
                ["bash", "-c", shortened(command)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode or not kept.exists():
                raise FixtureError(f"{path} could not be made by `{command}`:\n{done.stdout}{done.stderr}")
            return kept


def absent_corpora(environment: dict[str, str]) -> set[str]:
    """The corpora of the catalogue that would have to be fetched."""
    command = ["throughtime", "data", "list", "--json"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {
        corpus["name"]
        for corpus in json.loads(listed)["corpora"]
        if corpus["where"] in ("fetchable", "missing")
    }
