"""The exported word counter, and its export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from outside.wordcount import CountOptions
from throughtime.results import Progress
from throughtime.runtime.keywords import complete_options
from throughtime.runtime.runner import TextRunner, pad
from throughtime.text.texts import check_texts

if TYPE_CHECKING:
    from outside.wordcount.predictor import WordCounter
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport


class CountSettings(TypedDict):
    """An exported word counter has no settings."""


class CountRunner(TextRunner):
    """Counts words with the graph of a trained counter."""

    settings_type = CountSettings

    def count_words(
        self, texts: str | Sequence[str], *, progress: Progress | None = None, **options: Unpack[CountOptions]
    ) -> list[float]:
        """About how many words each text has."""
        times = complete_options(CountOptions, options)["times"]
        ids, lengths = pad([self.codec.encode(text) for text in check_texts(texts)])
        [numbers] = self.session.run(["numbers"], {"ids": ids, "lengths": lengths})
        return [times * number for [number] in numbers.tolist()]


def build_export(counter: WordCounter) -> ModelExport:
    """The graph of a counter, and the files that its runner needs."""
    from throughtime.graphs.write import ModelExport

    return ModelExport(
        lambda int8: {"model": build_graph(counter, int8)},
        {},
        counter.assets.codec.save,
        lambda: _cases(counter),
        'count_words("...")',
    )


def build_graph(counter: WordCounter, int8: bool) -> Graph:
    """Ids [T, B] and their lengths [B], to the numbers of words [B, 1]."""
    from throughtime.graphs.graph import Graph

    graph, model = Graph("counter", int8=int8), counter.model
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    vectors = graph.lookup(model.embedding.weight, ids)
    _, state = model.stack.graph(graph, vectors, None, lengths)
    numbers = graph.linear(state[0], model.head.weight, model.head.bias)
    graph.output(numbers, "numbers", "float32", ["batch", 1])
    return graph


def _cases(counter: WordCounter) -> Iterator[Case]:
    """A batch at which the graph is compared with torch."""
    import torch

    from throughtime.graphs.write import Case

    ids, lengths = torch.zeros(5, 2, dtype=torch.long), torch.tensor([5, 3])
    with torch.inference_mode():
        expected = {"numbers": counter.model(ids, lengths)[:, None]}
    yield Case.of("model", "2 x 5", {"ids": ids, "lengths": lengths}, expected)
