"""The methods of models of all tasks as one type, for type checkers that do not know the task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

if TYPE_CHECKING:
    from throughtime.results import (
        Classified,
        Composed,
        Evaluation,
        Filling,
        Forecast,
        Generated,
        Progress,
        Scored,
        Tagged,
        Translation,
    )
    from throughtime.runtime.search import WritingOptions

TASKS_OF = {
    "translate": ("translate",),
    "generate": ("language", "ngram"),
    "stream": ("language", "ngram"),
    "score": ("language", "ngram", "translate"),
    "tag": ("tag",),
    "fill": ("fill",),
    "classify": ("classify",),
    "compose": ("compose",),
    "forecast": ("forecast",),
}
"""The tasks whose models have each prediction method of `Model`."""


class TaskModel:
    """A model of one task: an error about a missing method lists the methods that it has."""

    if not TYPE_CHECKING:  # type checkers see the methods of each class

        def __getattr__(self, name: str) -> Any:
            """Explain a missing prediction method."""
            if name not in TASKS_OF:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            own = [method for method in TASKS_OF if hasattr(type(self), method)]
            raise AttributeError(
                f"a model of the task {self.task!r} has no method {name!r}; it has {', '.join(own)}"
            )


class Model(Protocol):
    """A trained model. It has only those prediction methods below that belong to its task.

    Each prediction method takes one input or a list of them, and returns a list with one answer per input.
    """

    task: str
    config: Any

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
        max_length: int | None = None,
        search: Any = "beam",
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        min_length: int = 0,
        copy_unknown: bool = False,
        align: bool = False,
        shortlist: int | None = None,
        progress: Progress | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate texts."""
        ...

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        max_new_tokens: int | None = None,
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        strategy: Any = None,
        progress: Progress | None = None,
        **options: Unpack[WritingOptions],
    ) -> list[Generated]:
        """Continue prompts."""
        ...

    def stream(
        self, prompt: str = "", *, max_new_tokens: int | None = None, strategy: Any = None
    ) -> Iterator[str]:
        """Continue a prompt, piece by piece."""
        ...

    def score(self, texts: Any, *, prompt: str = "") -> list[Scored]:
        """Return how likely each token of texts is, after a prompt if given; a translator scores pairs."""
        ...

    def tag(
        self, texts: str | Sequence[str], *, tokenize: str = "space", progress: Progress | None = None
    ) -> list[Tagged]:
        """Tag the words of texts."""
        ...

    def fill(
        self,
        texts: str | Sequence[str],
        *,
        k: int = 5,
        num_beams: int = 10,
        progress: Progress | None = None,
    ) -> list[Filling]:
        """Fill the blanks of texts."""
        ...

    def classify(
        self, texts: str | Sequence[str], *, k: int | None = None, progress: Progress | None = None
    ) -> list[Classified]:
        """Label texts."""
        ...

    def compose(
        self,
        conditions: Any,
        *,
        max_new_tokens: int | None = None,
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[WritingOptions],
    ) -> list[Composed]:
        """Write texts for labels or vectors."""
        ...

    def forecast(
        self,
        data: Any = None,
        *,
        h: int | None = None,
        level: Sequence[float] = (),
        future: Any = None,
        paths: int = 0,
        seed: int | None = None,
        date_format: str | None = None,
    ) -> list[Forecast]:
        """Forecast the next `h` values of each series."""
        ...

    def evaluate(
        self,
        data: Any = None,
        *,
        split: str = "test",
        skip_bad: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> Evaluation:
        """Measure the model on a split of its own or of other data."""
        ...

    def save(self, path: Path | str) -> None:
        """Write the model to a new folder, completely or not at all."""
        ...

    def export(
        self,
        out: Path | str,
        *,
        format: str | None = None,  # noqa: A002
        int8: bool = False,
        weights: str | None = None,
        sample: bool = True,
    ) -> dict[str, Any]:
        """Write the model to a folder that runs without torch, or to one HTML file that runs in a browser."""
        ...
