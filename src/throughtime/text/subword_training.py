"""Training of subword tokenizers; the same texts always give the same pieces.

WordPiece and BPE are trained by the `tokenizers` library. Its training of the unigram model (Kudo, 2018) is
not reproducible, so that model is trained here, by expectation maximisation and pruning. All words of one
length are computed at once: `spans[word, start, end]` is the piece between two positions, or none.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, unknown
from throughtime.text.subword import SPACE, SUBWORDS, FileTokenizer, SubwordTokenizer

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]

SPECIAL_TOKENS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
# Ideographs, kana and marks are words by themselves. So # never begins a longer piece, and ## can mark pieces
# inside words. No word is longer than wordpiece accepts.
_IDEOGRAPHS = r"\p{Han}\p{Hiragana}\p{Katakana}"
_WORDS = (
    rf"▁?[\p{{L}}\p{{M}}&&[^{_IDEOGRAPHS}]]{{1,100}}|▁?\p{{N}}{{1,100}}"
    rf"|[{_IDEOGRAPHS}]|▁?[^\s\p{{L}}\p{{M}}\p{{N}}▁]|▁|\s"
)

MAX_PIECE_LENGTH = 16
SEEDS_PER_PIECE = 8  # number of candidates for each piece of the vocabulary
MAX_WORDS = 200_000  # rarer words take much time and change little
SPANS_AT_ONCE = 2_000_000  # bounds the memory of one step
KEPT_PER_ROUND = 0.75
ROUNDS_OF_EXPECTATION = 2


def train_subword(
    kind: str, texts: Iterable[str], vocabulary_size: int = 1000, lowercase: bool = False
) -> SubwordTokenizer:
    """Train a tokenizer on texts, which are read once; the same texts always give the same tokenizer.

    Every character of the texts becomes a piece, even if the vocabulary then exceeds `vocabulary_size`.

    >>> tokenizer = train_subword("wordpiece", ["low lower lowest", "new newer newest"], vocabulary_size=60)
    >>> tokenizer.tokenize("newest low")
    ['▁newest', '▁low']
    """
    trainers = {"wordpiece": _train_wordpiece, "bpe": _train_byte_pairs, "unigram": _train_unigram}
    if kind == FileTokenizer.name:
        raise InputError(
            "tokens", f"is {kind!r}, which is not a tokenizer to train; give the path of a tokenizer.json"
        )
    if kind not in trainers:
        raise unknown("subword tokenizer", kind, trainers)
    if vocabulary_size <= (reserved := len(SPECIAL_TOKENS)):
        problem = f"is {vocabulary_size}, expected more than the {reserved} special tokens; raise max_size"
        raise InputError("vocabulary_size", problem)
    backend = trainers[kind](texts, vocabulary_size, lowercase)
    backend.add_special_tokens(SPECIAL_TOKENS)
    return SUBWORDS[kind](json.dumps(json.loads(backend.to_str()), ensure_ascii=False, indent=1))


def _train_wordpiece(texts: Iterable[str], size: int, lowercase: bool) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, trainers

    counts = _word_counts(texts, lowercase)
    # The trainer numbers pieces inside words in the order of a random hash and breaks ties by number.
    # Given as special tokens, they are numbered in this order.
    inside = sorted({f"##{character}" for word in counts for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL_TOKENS, *inside], show_progress=False
    )
    pupil = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS[0]))
    pupil.train_from_iterator(counts.elements(), trainer)
    model = models.WordPiece(pupil.get_vocab(), unk_token=SPECIAL_TOKENS[0], max_input_chars_per_word=200)
    backend = Tokenizer(model)
    _mark_spaces(backend, lowercase)
    backend.decoder = decoders.Sequence([decoders.Replace(Regex("^##(?=.)"), ""), backend.decoder])
    return backend


def _train_unigram(texts: Iterable[str], size: int, lowercase: bool) -> Any:
    from tokenizers import Tokenizer, models

    pieces = unigram_pieces(_word_counts(texts, lowercase), size - len(SPECIAL_TOKENS))
    backend = Tokenizer(models.Unigram([*((token, 0.0) for token in SPECIAL_TOKENS), *pieces], 0, False))
    _mark_spaces(backend, lowercase)
    return backend


def _train_byte_pairs(texts: Iterable[str], size: int, lowercase: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _mark_spaces(backend: Any, lowercase: bool) -> None:
    """Make a tokenizer write each space as ▁, and add one before the text so that all words look alike."""
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    steps = [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    backend.decoder = decoders.Sequence(
        [decoders.Fuse(), decoders.Replace(SPACE, " "), decoders.Strip(" ", 1, 0)]
    )


def _word_counts(texts: Iterable[str], lowercase: bool) -> Counter[str]:
    """Count words, split as by `_mark_spaces`."""
    from tokenizers import Tokenizer, models

    backend = Tokenizer(models.WordPiece(unk_token="?"))
    _mark_spaces(backend, lowercase)
    normalizer, cutter = backend.normalizer, backend.pre_tokenizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in cutter.pre_tokenize_str(normalizer.normalize_str(text)))
    return counts


def unigram_pieces(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Find the best `size` pieces for these words, with their log-probabilities, most likely first.

    All single characters are kept, even if there are more than `size`.

    >>> pieces = unigram_pieces({"banana": 5, "ban": 3, "nab": 1}, size=5)
    >>> sorted(piece for piece, _ in pieces)
    ['a', 'b', 'ban', 'banana', 'n']
    """
    pieces, frequencies = _seeds(counts, size)
    common = dict(Counter(counts).most_common(MAX_WORDS))
    words = _buckets(list(common), pieces, np.array(list(common.values()), dtype=np.float64))
    alternatives = _buckets(pieces, pieces, np.ones(len(pieces)))
    single = np.array([len(piece) == 1 for piece in pieces])
    scores = _log_probabilities(frequencies)
    alive = np.ones(len(pieces), dtype=bool)
    while True:
        for _ in range(ROUNDS_OF_EXPECTATION):
            frequencies = sum(
                (bucket.compute_expected_uses(scores) for bucket in words), np.zeros(len(pieces))
            )
            # A character that no segmentation uses must remain, since a new text may need it.
            frequencies = np.where(single, np.maximum(frequencies, 0.1), frequencies)
            scores = _log_probabilities(np.where(alive, frequencies, 0.0))
        number = max(size, int(single.sum()))
        if alive.sum() <= number:
            break
        keep = max(number, int(KEPT_PER_ROUND * alive.sum()))
        losses = np.where(alive, 0.0, -np.inf)
        used = alive & (frequencies > 0)
        best = np.empty(len(pieces))
        for bucket in alternatives:
            best[bucket.words] = bucket.best_without_whole(scores)
        losses[used] = frequencies[used] * (scores[used] - best[used])
        losses[single] = np.inf
        # Rounded, so that another order of additions on another machine changes nothing.
        order = np.lexsort((np.arange(len(pieces)), -np.round(losses, 6)))
        alive[order[keep:]] = False
        scores = np.where(alive, scores, -np.inf)
    scored = [(piece, round(float(score), 6)) for piece, score in zip(pieces, scores, strict=True)]
    return sorted(
        (item for item, lives in zip(scored, alive, strict=True) if lives), key=lambda x: (-x[1], x[0])
    )


class _Bucket(NamedTuple):
    """Words of one length, by number, the pieces that they may consist of, and their counts."""

    words: Ids
    spans: Ids
    counts: Floats
    length: int

    def edges(self, scores: Floats) -> Floats:
        """The score of each span, minus infinity if it is not a piece: [words, start, end]."""
        return np.append(scores, -np.inf)[self.spans]

    def compute_expected_uses(self, scores: Floats) -> Floats:
        """The expected number of uses of each piece in these words, over all segmentations."""
        edges = self.edges(scores)
        forward = np.zeros((len(self.words), self.length + 1))
        backward = np.zeros_like(forward)
        for end in range(1, self.length + 1):
            forward[:, end] = np.logaddexp.reduce(forward[:, :end] + edges[:, :end, end], axis=1)
        for start in range(self.length - 1, -1, -1):
            backward[:, start] = np.logaddexp.reduce(
                backward[:, start + 1 :] + edges[:, start, start + 1 :], axis=1
            )
        total = forward[:, -1, None, None]
        use = np.exp(forward[:, :, None] + edges + backward[:, None, :] - total) * self.counts[:, None, None]
        sums: Floats = np.bincount(self.spans.ravel(), use.ravel(), minlength=len(scores) + 1).astype(
            np.float64
        )
        return sums[:-1]

    def best_without_whole(self, scores: Floats) -> Floats:
        """The score of each word's best segmentation into at least two pieces."""
        edges = self.edges(scores)
        edges[:, 0, self.length] = -np.inf
        best = np.zeros((len(self.words), self.length + 1))
        for end in range(1, self.length + 1):
            best[:, end] = np.max(best[:, :end] + edges[:, :end, end], axis=1)
        return best[:, -1]


def _seeds(counts: Mapping[str, int], size: int) -> tuple[list[str], Floats]:
    """List all characters and the substrings that cover most text, and how often each occurs."""
    occurrences: Counter[str] = Counter()
    for word, count in counts.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + MAX_PIECE_LENGTH) + 1):
                occurrences[word[start:end]] += count
    singles = sorted(piece for piece in occurrences if len(piece) == 1)
    longer = [piece for piece, count in occurrences.items() if len(piece) > 1 and count > 1]
    longer.sort(key=lambda piece: (-occurrences[piece] * len(piece), piece))
    pieces = singles + longer[: SEEDS_PER_PIECE * max(size, 1000)]
    return pieces, np.array([occurrences[piece] for piece in pieces], dtype=np.float64)


def _buckets(words: Sequence[str], pieces: Sequence[str], counts: Floats) -> list[_Bucket]:
    ids = {piece: number for number, piece in enumerate(pieces)}
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, word in enumerate(words):
        by_length[len(word)].append(number)
    buckets = []
    for length, numbers in sorted(by_length.items()):
        height = max(1, SPANS_AT_ONCE // (length + 1) ** 2)
        for first in range(0, len(numbers), height):
            rows = np.array(numbers[first : first + height], dtype=np.int32)
            buckets.append(_Bucket(rows, _spans([words[row] for row in rows], ids), counts[rows], length))
    return buckets


def _spans(words: Sequence[str], ids: Mapping[str, int]) -> Ids:
    length, none = len(words[0]), len(ids)
    spans = np.full((len(words), length + 1, length + 1), none, dtype=np.int32)
    for row, word in enumerate(words):
        for start in range(length):
            for end in range(start + 1, min(length, start + MAX_PIECE_LENGTH) + 1):
                spans[row, start, end] = ids.get(word[start:end], none)
    return spans


def _log_probabilities(frequencies: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        scores: Floats = np.log(frequencies) - np.log(frequencies.sum())
    return scores
