"""Targets of `make fuzz` that are built from their own grammar: tokenizer files, YAML and HTML pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from tools.fuzz import Target

EXPRESSIONS = (
    r"a b \s \S \p{L} [^a] [a-z&&[^b]] ( (?: (?i: (?= (?! (?<! ) | * + ? {2} {2,5} {,3} {99} *? ^ $ \b . \1"
).split()
YAML = (
    "a:_ b:_ &x_ *x [ ] { } ,_ <<:_ -_ !!str_ | > __ 1e999 ?_ ' \" #_ ~ 0o7 12:30:45 2020-01-01 ... é".split()
)
YAML = [piece.replace("_", " ") for piece in YAML] + ["\n", "\t", "lr: 1e-3\n", "%YAML 1.2\n---\n"]
HTML = (
    "<b> </b> <i> </i> <p> </p> <br> <td> <script> </script> <title> <pre> <!-- --> <![CDATA[ ]]> </> < > "
    "&amp; &# &#x110000; the_ cat _sleeps. <img _title=' ' _translate=no> 漢 <a_href=x> </a> ._"
).split()
HTML = [piece.replace("_", " ") for piece in HTML] + ["\n", "\u202e"]


def repeated(pieces: list[str], longest: int = 20_000) -> st.SearchStrategy[str]:
    """Draw a text of these pieces, in which some stretches are repeated many times."""
    stretch = st.lists(st.sampled_from(pieces), max_size=12).map("".join)
    times = st.sampled_from((1, 1, 1, 2, 50, 5_000))
    whole = st.lists(st.tuples(stretch, times).map(lambda drawn: drawn[0] * drawn[1]), max_size=6)
    return whole.map(lambda parts: "".join(parts)[:longest])


def tokenizers() -> st.SearchStrategy[dict[str, Any]]:
    """Draw a definition of a tokenizer: known and unknown steps, with usual and odd settings."""
    from throughtime.text.definition import KNOWN, LISTS

    words = st.sampled_from(["a", "", "##", "▁", " ", "</w>", "ﷺ", "a" * 90, "a" * 600])
    numbers = st.sampled_from([0, 1, 2, 5, 500, 10**9, -1])
    truths = st.booleans() | st.none()
    expression = st.lists(st.sampled_from(EXPRESSIONS), max_size=8).map("".join)
    settings: dict[str, st.SearchStrategy[Any]] = {
        "prepend": words, "content": words, "prefix": words, "suffix": words, "delimiter": words,
        "replacement": words, "pad_token": words, "word_delimiter_token": words,
        "start": numbers, "stop": numbers, "length": numbers,
        "pattern": words.map(lambda one: {"String": one}) | expression.map(lambda one: {"Regex": one}),
        "behavior": st.sampled_from(["Removed", "Isolated", "MergedWithNext", "Contiguous"]),
        "prepend_scheme": st.sampled_from(["always", "never", "first"]),
        "precompiled_charsmap": st.sampled_from(["", "AAAA", "BAAAAAEBAQFhYmM="]),
    }  # fmt: skip
    flags = (
        "invert split cleanup lowercase clean_text handle_chinese_chars strip_accents strip_left strip_right"
    )
    flags += " add_prefix_space trim_offsets use_regex individual_digits"
    settings |= dict.fromkeys(flags.split(), truths)

    def part(name: str) -> st.SearchStrategy[Any]:
        step = st.fixed_dictionaries({"type": st.sampled_from([*KNOWN[name].split(), "Other"]), **settings})
        steps = st.lists(step, max_size=12).map(lambda some: {"type": "Sequence", LISTS[name]: some})
        return st.none() | step | steps

    vocabulary = {"[UNK]": 0, "a": 1, "b": 2, "##a": 3, "▁a": 4, "ab": 5}
    pieces = [[token, -1.0 * number] for token, number in vocabulary.items()]
    kinds = [
        {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
        {"type": "WordPiece", "vocab": vocabulary, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 500},
        {"type": "BPE", "vocab": vocabulary, "merges": ["a b"], "unk_token": "[UNK]"},
        {"type": "Unigram", "vocab": pieces, "unk_id": 0, "byte_fallback": False},
        {"type": "Unigram", "vocab": [["", 0.0], *pieces], "unk_id": 1, "byte_fallback": True},
    ]  # fmt: skip
    fixed = {"Fixed": 100_000_000}
    padding = {"strategy": fixed, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    padding |= {"pad_type_id": 0, "pad_token": "a"}
    return st.fixed_dictionaries(
        {
            "version": st.just("1.0"),
            "truncation": st.none(),
            "padding": st.none() | st.just(padding),
            "added_tokens": st.just([]),
            "post_processor": st.none(),
            "model": st.sampled_from(kinds),
            **{name: part(name) for name in LISTS},
        }
    )


def folder_targets(folder: Path) -> Iterator[Target]:
    """Yield the targets; what they read is written into `folder`."""
    from tests.tiny import save_untrained

    import throughtime as tt
    from throughtime.serve.markup import translate_linked
    from throughtime.settings import read_assignments, read_settings
    from throughtime.text.html_page import HtmlPage
    from throughtime.text.subword import tokenizer_file
    from tools.fuzz import Target

    def written(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return path

    def tokenize(drawn: tuple[dict[str, Any], str]) -> None:
        tokenizer = tokenizer_file(written("tokenizer.json", json.dumps(drawn[0])))
        tokenizer.detokenize(tokenizer.tokenize(drawn[1])[:2_000])

    texts = repeated(["a", "b", " ", "\n", "ab", "é", "ﷺ", "漢", "😀", "\u0301", "1"])
    yield Target("tokenizer definitions", st.tuples(tokenizers(), texts), tokenize)
    yield Target("YAML", repeated(YAML, 5_000), lambda text: read_settings(written("s.yaml", text)))
    words = repeated(YAML, 5_000).map("a=[{}".format)
    yield Target("YAML words", words, lambda word: read_assignments([word]))
    (folder / "tiny").mkdir()
    model = tt.load(save_untrained(folder / "tiny")["translate"], device="cpu")

    def translate(source: str) -> None:
        page = HtmlPage(source)
        search = partial(model.translate, align=True, max_length=8, num_beams=2)
        found = translate_linked(model, [one.text for one in page.segments], search)
        rendered = [one.render_translation(*best[0]) for one, best in zip(page.segments, found, strict=True)]
        page.replace_segments(rendered)

    yield Target("HTML pages", repeated(HTML, 4_000), translate)
