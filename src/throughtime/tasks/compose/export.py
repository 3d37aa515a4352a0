"""The two graphs of an exported composer: one reads the condition, the other is a step of the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from throughtime.cells.base import State
from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, number_names
from throughtime.models.decoders import ContextDecoder
from throughtime.search.generate import Memory
from throughtime.tasks.compose.network import ConditionedLanguageModel, VectorCondition
from throughtime.tasks.compose.predictor import Composer

SHAPES = ((1, 1), (1, 5), (3, 2))
"""The numbers of conditions and of texts for each at which an export is checked."""


def build_export(composer: Composer) -> ModelExport:
    """The graphs of a composer, and the settings and files that its runner needs."""
    model = composer.model
    return ModelExport(
        lambda int8: {
            "encoder": build_condition_graph(model, int8),
            "decoder": build_step_graph(model, int8),
        },
        {
            "begin_id": model.bos_id,
            "end_id": composer.specials.eos_id,
            "barred": composer.barred,
            "labels": None if composer.labels is None else list(composer.labels.names),
            "width": composer.width,
            "generation": dict(composer.generation),
        },
        composer.codec.save,
        lambda: _cases(model),
        composer.describe().python,
    )


def build_condition_graph(model: ConditionedLanguageModel, int8: bool) -> Graph:
    """The numbers of labels [1, S], or vectors [1, S, width], to the first state and what is kept."""
    graph = Graph("encoder", int8=int8)
    if isinstance(model.encoder, VectorCondition):
        source = graph.input("source", "float32", [1, "sentences", len(model.encoder.mean)])
    else:
        source = graph.input("source", "int64", [1, "sentences"])
    state, kept = model.decoder.graph_start(graph, model.encoder.graph(graph, source, ""))
    like_state, like_kept = _example(model)
    graph.state_outputs("state", state, [one.shape[1] for one in like_state], "sentences")
    graph.state_outputs("kept", kept, [one.shape[1] for one in like_kept], "sentences")
    return graph


def build_step_graph(model: ConditionedLanguageModel, int8: bool) -> Graph:
    """The last tokens [rows], the state and what is kept, to ln P [rows, V] and the next state."""
    graph = Graph("decoder", int8=int8)
    last = graph.input("last", "int64", ["rows"])
    like_state, like_kept = _example(model)
    sizes = [one.shape[1] for one in like_state]
    state = graph.state_inputs("state", sizes, "rows")
    kept = graph.state_inputs("kept", [one.shape[1] for one in like_kept], "sentences")
    stepped = model.decoder.graph_step(graph, last, state, kept)
    log_probs = model.head.graph_log_probs(graph, stepped.output)
    graph.output(log_probs, "log_probs", "float32", ["rows", "vocabulary"])
    graph.state_outputs("next", stepped.state, sizes, "rows")
    return graph


@torch.inference_mode()
def _example(model: ConditionedLanguageModel) -> tuple[State, State]:
    """The state and what is kept of one condition, for their shapes."""
    state, memory = model.encode(*model.prepare([_draw(model, torch.Generator())]))
    return state, memory.kept


def _draw(model: ConditionedLanguageModel, draws: torch.Generator) -> list[float]:
    """A condition by chance."""
    encoder = model.encoder
    if isinstance(encoder, VectorCondition):
        chance = torch.randn(len(encoder.mean), generator=draws)
        return [float(one) for one in encoder.mean.cpu() + encoder.scale.cpu() * chance]
    return [int(torch.randint(encoder.table.num_embeddings, (), generator=draws))]


@torch.inference_mode()
def _cases(model: ConditionedLanguageModel) -> Iterator[Case]:
    draws, words = torch.Generator().manual_seed(0), cast(ContextDecoder, model.decoder).embedding
    assert words is not None
    for count, each in SHAPES:
        source, lengths = model.prepare([_draw(model, draws) for _ in range(count)])
        state, memory = model.encode(source, lengths)
        expected = {**number_names("state", state), **number_names("kept", memory.kept)}
        yield Case.of("encoder", f"{count} conditions", {"source": source}, expected)
        owner = torch.arange(count).repeat_interleave(each)
        rows = tuple(part[owner] for part in state)
        last = torch.randint(words.num_embeddings, (len(owner),), generator=draws)
        step = model.step(last, rows, Memory(memory.kept, owner, each))
        given = {"last": last, **number_names("state", rows), **number_names("kept", memory.kept)}
        expected = {"log_probs": step.log_probs, **number_names("next", step.state)}
        yield Case.of("decoder", f"{count} conditions, {each} texts each", given, expected)
