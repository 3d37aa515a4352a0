"""`throughtime inspect markov`: a counted model as a Markov chain, beyond the next word."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model
from throughtime.cli.options import OptionalCount, Run, refuse
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, warn
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.ngram.markov import MarkovChain
    from throughtime.text.framing import Framing

SHOWN = 10


@as_command
def markov(
    run: Run,
    after: str | None = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000)] = None,
    most_likely: OptionalCount = None,
    top: OptionalCount = None,
) -> Outcome:
    """Look beyond the next word of an n-gram model, as a Markov chain over its last words.

    Both answers are exact, by dynamic programming: --steps K sums over all words that may come in between,
    and --most-likely T finds the best of all sequences of T tokens, which need not begin with the most likely
    next word.

    [bold]Examples[/bold]

      throughtime inspect markov runs/words --after time --steps 3

      throughtime inspect markov runs/words --after "the time" --most-likely 8

    Args:
        after: Words that come before; by default the beginning of a text.
        steps: Show which words are likely this many steps later.
        most_likely: Show the most likely sequence of this many tokens.
        top: With --steps: number of words to show; 10 by default.
    """
    from throughtime.ngram.markov import MarkovChain

    if (steps is None) == (most_likely is None):
        raise InputError("--steps and --most-likely", "give exactly one of these two options")
    if steps is None:
        refuse("goes with --steps; leave it out", top=top)
    model = load_model(run, "cpu", "ngram")
    framing: Framing = model.framing
    if framing.backward:
        raise InputError(str(run), "reads from right to left, so nothing comes after; use another model")
    if not model.config.holds_counts:
        problem = "holds probabilities (it is pruned or from an ARPA file); use a model of counts"
        raise InputError(str(run), problem)
    context = framing.ids(after or "", end=False)
    chain = MarkovChain(model.model, end_id=framing.end_id)
    facts = {"run": str(run), "order": chain.order, "states": chain.num_states, "after": after}
    if steps is not None:
        values, shown = _steps_ahead(chain, framing, context, steps, top or SHOWN)
    else:
        values, shown = _sequence(chain, framing, context, most_likely or 1)
    if after:
        warn(model.input_warnings([after]))
    return Outcome(facts | values, shown)


def _steps_ahead(
    chain: MarkovChain, framing: Framing, context: list[int], steps: int, top: int
) -> tuple[dict[str, Any], list[Any]]:
    """The likeliest words some steps later, and how uncertain the word is."""
    from throughtime.text.codec import END

    chances = chain.after(context, steps)
    best = [int(word) for word in (-chances).argsort(kind="stable")[:top] if chances[word] > 0]
    words = [END if word == framing.end_id else framing.codec.vocabulary.token(word) for word in best]
    entropy = -sum(chance * math.log2(chance) for chance in chances.tolist() if chance > 0)
    likely = dict(zip(words, chances[best].tolist(), strict=True))
    rows = [(word, f"{chance:.4f}") for word, chance in likely.items()]
    table = build_table("word", ">probability", rows=rows, **BOLD)
    listed = [{"word": word, "probability": chance} for word, chance in likely.items()]
    values = {"steps": steps, "entropy_bits": entropy, "words": listed}
    note = f"Entropy of the word {steps} steps ahead: {entropy:.2f} bits; {chain.num_states:,} states."
    return values, [table, "", note]


def _sequence(
    chain: MarkovChain, framing: Framing, context: list[int], length: int
) -> tuple[dict[str, Any], list[Any]]:
    """The most likely sequence, up to the end of the text if it reaches one."""
    try:
        ids, log_prob = chain.most_likely(length, context)
    except InputError as error:
        raise InputError("--most-likely", error.problem) from None
    if log_prob == -math.inf:
        problem = f"is {length}, but no sequence of that length can follow here; give a smaller number"
        raise InputError("--most-likely", problem)
    if framing.end_id in ids:
        ids = ids[: ids.index(framing.end_id) + 1]
    text = framing.text(ids)
    values = {
        "most_likely": length,
        "text": text,
        "tokens": framing.codec.vocabulary.tokens(ids),
        "log_prob": log_prob,
    }
    return values, [text, f"ln P {log_prob:.3f}, {chain.num_states:,} states"]
