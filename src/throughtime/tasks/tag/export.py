"""The export of a tagger: one graph from words and their letters to the scores of tags and labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import torch

from throughtime.data.batching.tagged import TaggedBatches
from throughtime.graphs.graph import Graph, to_array
from throughtime.graphs.write import Case, ModelExport
from throughtime.layers.pooling import Pooling
from throughtime.tasks.tag.network import SequenceTagger, SpellingReader
from throughtime.tasks.tag.predictor import Tagger

SHAPES = ((1, 1), (1, 40), (3, 7), (3, 30))


def build_export(tagger: Tagger) -> ModelExport:
    """The graph of a tagger with its language models, and the settings and files that its runner needs."""
    model, codec = tagger.model, tagger.codec
    weights = model.head.weights()
    chain = weights and {name: to_array(one).tolist() for name, one in weights._asdict().items()}

    def save(folder: Path) -> None:
        codec.save(folder)
        for number, language in enumerate(tagger.languages):
            language.reading.codec.save(folder / f"language-{number}")

    return ModelExport(
        lambda int8: {"model": build_tagger_graph(model, int8)},
        {
            "vectors": codec.vectors,
            "lowercase": codec.lowercase,
            "max_characters": codec.max_characters,
            "spelled": model.spelling is not None,
            "labelled": model.labels is not None,
            "chain": chain,
            "languages": [
                {name: getattr(language.reading, name) for name in ("begin_id", "backward", "between")}
                for language in tagger.languages
            ],
        },
        save,
        lambda: _cases(tagger),
        'tag(["a sentence in words"])[0].tags',
    )


def build_tagger_graph(model: SequenceTagger, int8: bool) -> Graph:
    """From words [T, B], their letters and language models to scores of tags [T, B, S] and labels [B, K]."""
    graph = Graph("tagger", int8=int8)
    words = graph.input("words", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    parts = [graph.lookup(model.embedding.weight, words)]
    if model.spelling is not None:
        characters = graph.input("characters", "int64", ["letters", "forms"])
        sizes = graph.input("character_lengths", "int64", ["forms"])
        spelled = graph.input("spelled", "int64", ["time", "batch"])
        parts.append(graph.op("Gather", _spellings(graph, model.spelling, characters, sizes), spelled))
    if model.language is not None:
        read = [_read(graph, model, number) for number in range(len(model.readers))]
        parts.append(graph.linear(graph.concat(read), model.language.weight, model.language.bias))
    states, _ = model.stack.graph(graph, graph.concat(parts), None, lengths)
    scores = graph.linear(states, model.scores.weight, model.scores.bias)
    graph.output(scores, "tags", "float32", ["time", "batch", model.scores.out_features])
    if model.labels is not None:
        both = [cast(Pooling, pooling).graph(graph, states, states, lengths) for pooling in model.poolings]
        labels = graph.linear(graph.concat(both), model.labels.weight, model.labels.bias)
        graph.output(labels, "labels", "float32", ["batch", model.labels.out_features])
    return graph


def _spellings(graph: Graph, reader: SpellingReader, characters: str, lengths: str) -> str:
    """The last states of both directions, [forms, 2 H]."""
    vectors = graph.lookup(reader.embedding.weight, characters)
    _, state = reader.stack.graph(graph, vectors, None, lengths)
    return graph.op("Concat", state[0], state[len(state) // 2], axis=-1)


def _read(graph: Graph, model: SequenceTagger, number: int) -> str:
    """The outputs of a language model at the end of each word, [T, B, H]."""
    language = model.readers[number].model
    ids = graph.input(f"read_{number}", "int64", [f"read_{number}", "batch"])
    places = graph.input(f"places_{number}", "int64", ["time", "batch"])
    outputs, _ = language.stack.graph(graph, language.graph_embed(graph, ids))
    width = language.stack.output_size
    wide = graph.op(
        "Expand",
        graph.op("Unsqueeze", places, graph.axes(-1)),
        graph.sizes(graph.size(places, 0), graph.size(places, 1), width),
    )
    return graph.op("GatherElements", outputs, wide, axis=0)


@torch.inference_mode()
def _cases(tagger: Tagger) -> Iterator[Case]:
    model, draws = tagger.model, np.random.default_rng(0)
    known = [word for word in tagger.codec.words if word not in tagger.codec.words.reserved]
    for batch, longest in SHAPES:
        lengths = [longest, *draws.integers(1, longest + 1, batch - 1).tolist()]
        sentences = [
            [known[place] for place in draws.integers(len(known), size=length)] for length in lengths
        ]
        rows = tagger.codec.rows(sentences, tagger.languages)
        (one,) = TaggedBatches(rows, batch_size=batch, shuffle=False)
        scores, labels = model(one)
        given = {"words": one.words, "lengths": one.lengths}
        if model.spelling is not None:
            spelling = {"characters": one.characters, "character_lengths": one.character_lengths}
            given |= {**spelling, "spelled": one.spelled}
        for number in range(len(model.readers)):
            given[f"read_{number}"] = one.read[number]
            given[f"places_{number}"] = one.read_places[number]
        expected = {"tags": scores} if labels is None else {"tags": scores, "labels": labels}
        long = {name: value.long() for name, value in given.items()}
        yield Case.of("model", f"{batch} x {longest}", long, expected)
