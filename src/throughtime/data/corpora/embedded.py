"""What comes with throughtime itself: nothing to fetch."""

from __future__ import annotations

from throughtime.data.corpora.corpus import Corpus, Part

_SPLITS: dict[str, tuple[str, ...]] = {"train": (), "valid": (), "test": ()}

EMBEDDED = Corpus(
    name="embedded",
    title="Embedded corpora",
    description=(
        "English-French and English-Chinese pairs from a small grammar; their English sides and a short "
        "story as text; two noisy series (a slow sine, a ramp). All come with the package."
    ),
    licence="as throughtime",
    citation="throughtime",
    home="",
    parts=(
        Part("pairs", "embedded", _SPLITS, "en-fr", tokens="translation", languages=("en", "fr")),
        Part("pairs", "embedded", _SPLITS, "en-zh", tokens="unicode", languages=("en", "zh")),
        Part("text", "embedded", _SPLITS, "english", tokens="translation"),
        Part("series", "embedded", {"all": ()}, "sine"),
        Part("series", "embedded", {"all": ()}, "ramp"),
    ),
)

CORPORA = (EMBEDDED,)
