"""`throughtime data batches`: the batches that a model would be trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import open_data, report_skipped
from throughtime.cli.options import Count, OptionalCount, refuse
from throughtime.cli.output import Outcome, as_command, build_table
from throughtime.errors import InputError, unknown
from throughtime.runtime.keywords import MAX_SEED

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.text.codec import Codec

NUM_STEPS = 35


@as_command
def batches(
    data: Annotated[str, typer.Argument(metavar="DATA")],
    batch_size: Count = 32,
    num_steps: OptionalCount = None,
    sampling: str | None = None,
    max_length: Annotated[int | None, typer.Option(min=2)] = None,
    tokens: str | None = None,
    min_freq: OptionalCount = None,
    split: str = "train",
    seed: Annotated[int | None, typer.Option(min=0, max=MAX_SEED)] = 0,
    source: str | None = None,
    target: str | None = None,
    skip_bad: bool = False,
) -> Outcome:
    """Cut text or sentence pairs into batches, and report their number, shape, padding and truncation.

    By default, the rows of running text are random windows. With --sampling sequential, each row continues
    the same row of the previous batch; with rotated, each epoch also begins at another place in the text.

    [bold]Examples[/bold]

      throughtime data batches timemachine --batch-size 32 --num-steps 35

      throughtime data batches timemachine --batch-size 1024 --num-steps 32 --sampling sequential

      throughtime data batches multi30k/tok --batch-size 64 --max-length 40

    Args:
        data: Name from `throughtime data list`, a file, or a folder of splits.
        seed: Seed of the random numbers; equal seeds give equal results.
        batch_size: Number of rows in a batch.
        num_steps: For running text: number of tokens in a row; 35 by default.
        sampling: For running text: {throughtime.data.batching.text:SAMPLINGS}; random by default.
        max_length: For pairs: maximum length of a sentence, with its end token.
    """
    from throughtime.data.batching.text import SAMPLINGS
    from throughtime.data.idcache import token_ids
    from throughtime.text.codec import choose_reserved

    if sampling is not None and sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)
    dataset = open_data(data, source=source, target=target, skip_bad=skip_bad)
    tokens = tokens or dataset.tokens
    if dataset.kind in ("pairs", "cards"):
        refuse("is for running text; leave it out", num_steps=num_steps, sampling=sampling)
        options = {"batch_size": batch_size, "max_length": max_length, "seed": seed or 0}
        values = _cut_pairs(dataset, split, tokens, min_freq, **options)
        about = "first row of the first batch"
    elif dataset.kind == "text":
        refuse("is for sentence pairs; leave it out", max_length=max_length)
        codec = _codec(dataset, split, tokens, min_freq, choose_reserved(dataset.layout))
        ids = token_ids(dataset, split, codec, eos=dataset.layout == "lines").ids
        cut = SAMPLINGS[sampling or "random"](ids, batch_size, num_steps or NUM_STEPS, seed=seed or 0)
        first = next(iter(cut))
        values = {
            "vocabulary": len(codec.vocabulary),
            "tokens": len(ids),
            "sampling": sampling or "random",
            "batches": len(cut),
            "shape": list(first.inputs.shape),
            "inputs": codec.decode(first.inputs[:, 0].tolist(), skip_reserved=False),
            "labels": codec.decode(first.labels[:, 0].tolist(), skip_reserved=False),
        }
        about = "first row of the first batch; its labels are shifted by one"
    else:
        problem = f"holds {dataset.kind} data; only text and sentence pairs can be cut into batches"
        raise InputError(data, problem)
    report_skipped(dataset)
    values = {"data": dataset.name, "split": split, "tokenizer": tokens, **values}
    padding = f"{values.get('padding', 0):.1%} of source plus target positions"
    shown = values | ({"padding": padding} if "padding" in values else {})
    return Outcome(values, [_table(shown, about)])


def _cut_pairs(
    dataset: Dataset, split: str, tokens: str, min_freq: int | None, **options: Any
) -> dict[str, Any]:
    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.data.batching.pairs import PairBatches
    from throughtime.data.records import Specials
    from throughtime.text.codec import RESERVED

    codecs = [_codec(dataset, split, tokens, min_freq, RESERVED, side) for side in ("source", "target")]
    pairs = list(dataset.pairs(split))
    sides = [RaggedIds.of(codec.encode(pair[i]) for pair in pairs) for i, codec in enumerate(codecs)]
    special = [Specials(_pad(c), c.vocabulary.bos_id, c.vocabulary.eos_id) for c in codecs]
    cut = PairBatches(sides[0], sides[1], special[0], special[1], **options)
    first = next(iter(cut))
    source, target = (codec.vocabulary for codec in codecs)
    return {
        "pairs": len(pairs),
        "source_vocabulary": len(source),
        "target_vocabulary": len(target),
        "batches": len(cut),
        "padding": cut.padding,
        "truncated_sources": cut.truncated.sources,
        "truncated_targets": cut.truncated.targets,
        "source_shape": list(first.source.shape),
        "target_shape": list(first.labels.shape),
        "source": " ".join(source.tokens(first.source[:, 0].tolist())),
        "decoder_input": " ".join(target.tokens(first.inputs[:, 0].tolist())),
        "labels": " ".join(target.tokens(first.labels[:, 0].tolist())),
    }


def _codec(
    dataset: Dataset,
    split: str,
    tokens: str,
    min_freq: int | None,
    reserved: tuple[str, ...],
    side: Any = None,
) -> Codec:
    from throughtime.text.codec import Codec

    normaliser, texts = dataset.normaliser_for(tokens), dataset.texts(split, side)
    return Codec.build(texts, tokens, min_freq=min_freq or 1, reserved=reserved, normaliser=normaliser)


def _pad(codec: Codec) -> int:
    pad = codec.vocabulary.pad_id
    if pad is None:
        raise InputError("--tokens", f"{codec.tokenizer.name} has no padding token; choose another tokenizer")
    return pad


def _table(values: dict[str, Any], about: str) -> Any:
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in values.items()
    ]
    return build_table("", "", rows=rows, show_header=False, caption=about, caption_justify="left")
