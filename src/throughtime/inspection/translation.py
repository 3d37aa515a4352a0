"""What a translator does with a sentence: the words that it attends to, and its beam search as a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from throughtime.errors import InputError
from throughtime.interrupt import check_interrupt
from throughtime.results import Answer
from throughtime.search.beam import Beam
from throughtime.search.generate import Finished, Moment
from throughtime.search.trace import Trace, TraceNode
from throughtime.text.codec import label, piece, pieces
from throughtime.text.texts import format_signed

if TYPE_CHECKING:
    from torch import Tensor

    from throughtime.results import Alignment, Translation
    from throughtime.tasks.translate.translation import SentenceTranslator, TranslatedPart
    from throughtime.text.codec import Codec
    from throughtime.text.parallel import Codecs

DIGITS = 5  # of scores and weights of single tokens
CUT = 3  # number of rejected candidates to show per step, the likeliest ones
MAX_TOKENS = 120


def attention(translator: SentenceTranslator, text: str, **options: Any) -> Translation:
    """Translate a text and return its translation with the alignment; options are those of `translate`."""
    require_translator(translator)
    if not text.strip():
        raise InputError("sentence", "is empty; give some words to translate")
    [answer] = translator.translate([text], align=True, **options)
    if answer.alignment is None:
        raise InputError("attention", "this translator has none: it reads the source into one vector")
    return answer


@dataclass(frozen=True)
class AttentionSteps(Answer):
    """The attention of a translation, token by token: [target tokens][source tokens], with both end marks.

    A row of `weights` is the softmax of the row of `scores`.
    """

    source: tuple[str, ...]  # what each token adds to the text
    target: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PartTranslation(Answer):
    """A translation of a part of a text; alignment and steps are None for a model without attention."""

    text: str
    score: float
    log_prob: float
    ended: bool
    alignment: Alignment | None
    steps: AttentionSteps | None


@dataclass(frozen=True)
class TextPart(Answer):
    """A part of a text that is translated on its own, usually a sentence; translations are best first."""

    source: str
    translations: tuple[PartTranslation, ...]


@dataclass(frozen=True)
class AttentionView(Answer):
    """The translations of a text, best first, and those of each of its parts.

    The translations of a text of one part are those of the part; others have neither alignments nor steps.
    """

    source: str
    translations: tuple[PartTranslation, ...]
    parts: tuple[TextPart, ...]


def attention_view(
    translator: SentenceTranslator, text: str, *, prefix: str = "", forbid: Sequence[str] = (), **options: Any
) -> AttentionView:
    """Translate a text and show the attention of each of its parts; options are those of `translate`.

    Translations begin with `prefix`, which needs a text of one part, and contain none of the words of
    `forbid`.
    """
    require_translator(translator)
    codecs, parts = translator.codecs, []
    count = len(codecs.split(text, translator.generation.max_source_tokens))
    if prefix and count > 1:
        problem = f"is for one sentence, but this text is translated in {count} parts; give one of them"
        raise InputError("prefix", problem)

    def watch(part: TranslatedPart) -> None:
        check_interrupt()
        parts.append(_describe_part(codecs, part))

    constraints: dict[str, Any] = {"prefix": prefix, "forbid": forbid}
    (best,) = translator.translate([text], watch=watch, **constraints, **options)
    if len(parts) == 1:
        return AttentionView(text, parts[0].translations, tuple(parts))
    whole = (best, *best.alternatives)
    found = (PartTranslation(one.text, one.score, one.log_prob, one.ended, None, None) for one in whole)
    return AttentionView(text, tuple(found), tuple(parts))


def _describe_part(codecs: Codecs, part: TranslatedPart) -> TextPart:
    translations = []
    for rank, (translation, result) in enumerate(zip(part.translations, part.searched.results, strict=True)):
        alignment = steps = None
        if part.searched.attention:
            words = codecs.source.tokenizer.tokenize(part.source)
            tokens = codecs.target.vocabulary.tokens(result.tokens)
            alignment = codecs.align_words(part.searched.attention[rank].cpu().numpy(), words, tokens)
        if part.searched.scores:
            end = [codecs.end_id] if result.ended else []
            tables = (part.searched.scores[rank], part.searched.attention[rank])
            scores, weights = (_round_rows(table[:, : len(part.prompt)]) for table in tables)
            target = pieces(codecs.target, [*result.tokens, *end])
            steps = AttentionSteps(tuple(pieces(codecs.source, part.prompt)), tuple(target), scores, weights)
        figures = (translation.text, translation.score, translation.log_prob, translation.ended)
        translations.append(PartTranslation(*figures, alignment, steps))
    return TextPart(part.source, tuple(translations))


def _round_rows(table: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(value, DIGITS) for value in row) for row in table.tolist())


def require_translator(model: Any) -> None:
    """Raise if a model is not a translator."""
    if not hasattr(model, "run_search"):
        raise InputError("model", "is not a translator; attention and beam search need one")


def check_attention(model: Any) -> None:
    """Raise if a model is not a translator with attention."""
    require_translator(model)
    if not model.attends:
        raise InputError("model", "has no attention")


@dataclass(frozen=True)
class Candidate:
    """A token that the search considered, after the tokens of its parent."""

    step: int  # 1 for the first token
    parent: int | None  # an index of the nodes of the tree
    piece: str  # what it adds to the text
    label: str
    probability: float  # of the token after its parent
    log_prob: float  # of all tokens up to here
    score: float
    status: str  # kept, cut or ended
    reason: str
    best: bool = False  # whether it is part of the best translation


@dataclass(frozen=True)
class TranslationResult:
    """A translation that the search found; `node` is the index of its last token."""

    text: str
    score: float
    log_prob: float
    ended: bool
    node: int


@dataclass(frozen=True)
class BeamTree(Answer):
    """All tokens that a beam search of this width considered; scores are ln P / length^alpha."""

    text: str
    width: int
    alpha: float
    nodes: tuple[Candidate, ...]
    results: tuple[TranslationResult, ...]

    @property
    def steps(self) -> int:
        """The number of tokens of the longest hypothesis."""
        return max((node.step for node in self.nodes), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON; nodes refer to each other by their index."""
        return {**super().to_dict(), "steps": self.steps}


def read_sentence(translator: SentenceTranslator, text: str) -> list[int]:
    """The ids of a sentence to translate; an empty or long text is refused."""
    prompt = translator.codecs.prompt(text)
    if not text.strip() or len(prompt) > MAX_TOKENS:
        problem = "is empty" if not text.strip() else f"has {len(prompt)} tokens, more than {MAX_TOKENS}"
        raise InputError("sentence", f"{problem}; give one sentence to translate")
    return prompt


def beam_tree(
    translator: SentenceTranslator,
    text: str,
    num_beams: int | None = None,
    *,
    prefix: str = "",
    forbid: Sequence[str] = (),
) -> BeamTree:
    """Search as the translator does for one sentence, and return the tree of the search.

    Translations begin with `prefix`, and contain none of the words of `forbid`.
    """
    require_translator(translator)
    prompt = read_sentence(translator, text)
    constraints, candidates = translator.constrain(prefix, forbid), translator.choose_shortlist()
    alpha = translator.generation.length_penalty
    num_beams = num_beams or translator.generation.num_beams
    end_id, target = translator.codecs.end_id, translator.codecs.target
    beam = Beam(end_id, num_beams, length_penalty=alpha, max_length=1)  # each search sets its own length
    watcher = _Reasons(beam)
    [finished] = translator.run_search(
        [prompt], beam, constraints=constraints, watch=watcher, shortlist=candidates
    )
    paths = [_path(watcher.nodes, result, end_id) for result in finished.results]
    results = [
        TranslationResult(target.decode(result.tokens), result.score, result.log_prob, result.ended, path[-1])
        for result, path in zip(finished.results, paths, strict=True)
    ]
    nodes = _candidates(watcher, target, set(paths[0]))
    return BeamTree(text, num_beams, alpha, tuple(nodes), tuple(results))


class _Reasons(Trace):
    """The trace of one sentence, and the scores that a candidate had to beat at each step."""

    def __init__(self, beam: Beam) -> None:
        super().__init__(beam.end_id, cut=CUT, length_penalty=beam.length_penalty)
        self.beam = beam
        self.bars: list[float] = []  # the log-probability of the last of the `width` best
        self.found: list[float] = []  # the score of the best result, -inf while there is none

    def __call__(self, moment: Moment) -> None:
        total = (moment.before.log_prob[:, None] + moment.log_probs).flatten()
        self.bars.append(float(total.topk(min(self.beam.width, len(total))).values[-1]))
        scores = [result.score for result in moment.hypotheses.ended[0] if result.ended]
        self.found.append(max(scores, default=-torch.inf))
        super().__call__(moment)

    def reason(self, node: TraceNode) -> str:
        """Explain in one sentence why a node was kept, cut or ended."""
        if node.status == "ended":
            return f"a complete translation, with the score {format_signed(node.score)}"
        width, bar = self.beam.width, self.bars[node.step - 1]
        found = format_signed(self.found[node.step - 1])
        if node.status == "kept":
            return f"one of the {width} best of this step" if width > 1 else "the best of this step"
        if node.log_prob < bar:
            # All candidates count here, also complete translations and those that cannot win.
            beaten = f"ln P {format_signed(node.log_prob)}, the last has {format_signed(bar)}"
            return f"not among the {width} best of this step: {beaten}"
        if node.token == self.end_id:
            beaten = f"its score {format_signed(node.score)} is below the best found, {found}"
            return f"a complete translation, but {beaten}"
        ceiling = self.beam.ceiling(torch.tensor(node.log_prob, dtype=torch.float64), node.step)
        return (
            f"cannot win: it can reach at most {format_signed(float(ceiling))}, and {found} was found already"
        )


def _candidates(watcher: _Reasons, codec: Codec, best: set[int]) -> list[Candidate]:
    candidates: list[Candidate] = []
    texts: list[list[int]] = []  # the tokens up to each node
    for number, node in enumerate(watcher.nodes):
        check_interrupt()
        parent, before = (None, []) if node.parent is None else (candidates[node.parent], texts[node.parent])
        texts.append([*before, node.token])
        added = piece(codec, before, node.token)
        gained = node.log_prob - (parent.log_prob if parent else 0.0)
        labelled = label(added, parent.piece if parent else "")
        figures = (added, labelled, min(1.0, math.exp(gained)), node.log_prob, node.score)
        candidates.append(
            Candidate(node.step, node.parent, *figures, node.status, watcher.reason(node), number in best)
        )
    return candidates


def _path(nodes: Sequence[TraceNode], result: Finished, end_id: int | None) -> list[int]:
    """Find the nodes of a result, from its first token to its last."""
    tokens = [*result.tokens, *([end_id] if result.ended else [])]
    way: list[int] = []
    for token in tokens:
        parent = way[-1] if way else None
        children = (number for number, node in enumerate(nodes) if node.parent == parent)
        way.append(next(n for n in children if nodes[n].token == token and nodes[n].status != "cut"))
    return way
