"""`throughtime data batches`: what a model will be fed, before any model is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import open_data, report_skipped
from throughtime.cli.options import SEED, Debug, Json, SkipBad, Source, Target, refuse
from throughtime.cli.output import Outcome, as_command
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.text.codec import Codec

NUM_STEPS = 35


@as_command
def batches(
    data: Annotated[str, typer.Argument(help="A name of the catalogue, a file, or a folder of splits.")],
    batch_size: Annotated[int, typer.Option(help="Rows of a batch.", min=1)] = 32,
    num_steps: Annotated[
        int | None, typer.Option(help="For running text: tokens of a row; 35 if not given.", min=1)
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="For running text: random windows (if not given), sequential rows that go on, or rotated "
            "ones, which begin elsewhere in each epoch."
        ),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="For pairs: the longest sentence, its end token included.", min=2)
    ] = None,
    tokens: Annotated[str | None, typer.Option(help="The tokenizer. [the data's own]")] = None,
    min_freq: Annotated[int, typer.Option(help="Rarer tokens become <unk>.", min=1)] = 1,
    split: Annotated[str, typer.Option(help="train, valid, test, heldout or all.")] = "train",
    seed: Annotated[int, SEED] = 0,
    source: Source = None,
    target: Target = None,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Cut text or sentence pairs into batches, and report their number, shape, padding and truncation.

    [bold]Examples[/bold]

      throughtime data batches timemachine --batch-size 32 --num-steps 35

      throughtime data batches timemachine --batch-size 1024 --num-steps 32 --sampling sequential

      throughtime data batches multi30k/tok --batch-size 64 --max-length 40
    """
    from throughtime.data.batching.text import SAMPLINGS

    if sampling is not None and sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)
    dataset = open_data(data, source=source, target=target, skip_bad=skip_bad)
    chosen = tokens or dataset.tokens
    if dataset.kind in ("pairs", "cards"):
        refuse("is for running text; leave it out", num_steps=num_steps, sampling=sampling)
        return _of_pairs(dataset, split, chosen, min_freq, batch_size, max_length, seed)
    if dataset.kind == "text":
        refuse("is for sentence pairs; leave it out", max_length=max_length)
        steps, how = num_steps or NUM_STEPS, sampling or "random"
        return _of_text(dataset, split, chosen, min_freq, batch_size, steps, how, seed)
    raise InputError(data, f"holds {dataset.kind}; batches of text and of sentence pairs can be shown")


def _of_text(
    dataset: Dataset,
    split: str,
    tokens: str,
    min_freq: int,
    batch_size: int,
    num_steps: int,
    sampling: str,
    seed: int,
) -> Outcome:
    from throughtime.data.batching.text import SAMPLINGS
    from throughtime.data.idcache import token_ids
    from throughtime.text.codec import language_reserved

    codec = _codec(dataset, split, tokens, min_freq, language_reserved(dataset.layout))
    report_skipped(dataset)
    ids = token_ids(dataset, split, codec, eos=dataset.layout == "lines").ids
    cut = SAMPLINGS[sampling](ids, batch_size, num_steps, seed=seed)
    first = next(iter(cut))
    values = {
        "data": dataset.name,
        "split": split,
        "tokenizer": tokens,
        "vocabulary": len(codec.vocabulary),
        "tokens": len(ids),
        "sampling": sampling,
        "batches": len(cut),
        "shape": list(first.inputs.shape),
        "inputs": codec.decode(first.inputs[:, 0].tolist(), skip_reserved=False),
        "labels": codec.decode(first.labels[:, 0].tolist(), skip_reserved=False),
    }
    return Outcome(
        values, [_table(values, "the first row of the first batch, shifted by one for its labels")]
    )


def _of_pairs(
    dataset: Dataset,
    split: str,
    tokens: str,
    min_freq: int,
    batch_size: int,
    max_length: int | None,
    seed: int,
) -> Outcome:
    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.data.batching.pairs import PairBatches
    from throughtime.data.records import Specials
    from throughtime.text.codec import RESERVED

    codecs = [_codec(dataset, split, tokens, min_freq, RESERVED, side) for side in ("source", "target")]
    pairs = list(dataset.pairs(split))
    report_skipped(dataset)
    sides = [RaggedIds.of(codec.encode(pair[i]) for pair in pairs) for i, codec in enumerate(codecs)]
    special = [Specials(_pad(c), c.vocabulary.bos_id, c.vocabulary.eos_id) for c in codecs]
    cut = PairBatches(
        sides[0], sides[1], special[0], special[1], batch_size=batch_size, max_length=max_length, seed=seed
    )
    first = next(iter(cut))
    values = {
        "data": dataset.name,
        "split": split,
        "tokenizer": tokens,
        "pairs": len(pairs),
        "source_vocabulary": len(codecs[0].vocabulary),
        "target_vocabulary": len(codecs[1].vocabulary),
        "batches": len(cut),
        "padding": cut.padding,
        "truncated_sources": cut.truncated.sources,
        "truncated_targets": cut.truncated.targets,
        "source_shape": list(first.source.shape),
        "target_shape": list(first.labels.shape),
        "source": " ".join(codecs[0].vocabulary.tokens(first.source[:, 0].tolist())),
        "decoder_input": " ".join(codecs[1].vocabulary.tokens(first.inputs[:, 0].tolist())),
        "labels": " ".join(codecs[1].vocabulary.tokens(first.labels[:, 0].tolist())),
    }
    shown = {**values, "padding": f"{cut.padding:.1%} of source plus target positions"}
    return Outcome(values, [_table(shown, "the first row of the first batch")])


def _codec(
    dataset: Dataset,
    split: str,
    tokens: str,
    min_freq: int,
    reserved: tuple[str, ...],
    side: str | None = None,
) -> Codec:
    from throughtime.text.codec import Codec

    return Codec.build(
        dataset.texts(split, side),
        tokens,
        min_freq=min_freq,
        reserved=reserved,
        normaliser=dataset.normaliser_for(tokens),
    )


def _pad(codec: Codec) -> int:
    pad = codec.vocabulary.pad_id
    if pad is None:
        raise InputError("--tokens", f"{codec.tokenizer.name} has no padding token; choose another tokenizer")
    return pad


def _table(values: dict[str, Any], about: str) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, caption=about, caption_justify="left", padding=(0, 2, 0, 0))
    for name, value in values.items():
        number = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), Text(number))
    return table
