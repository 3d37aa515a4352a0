"""The methods of models of all tasks as one type, for type checkers that do not know the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from throughtime.results import Scored
    from throughtime.tasks.classify.runner import TextClassifier
    from throughtime.tasks.compose.predictor import Composer
    from throughtime.tasks.fill.runner import BlankFiller
    from throughtime.tasks.forecast.predictor import SeriesForecaster
    from throughtime.tasks.language.model import LanguageModel
    from throughtime.tasks.tag.runner import SentenceTagger
    from throughtime.tasks.translate.translation import SentenceTranslator

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


if TYPE_CHECKING:

    class Model(  # type: ignore[misc]  # networks and settings differ by task
        SentenceTranslator,
        LanguageModel,
        SentenceTagger,
        BlankFiller,
        TextClassifier,
        Composer,
        SeriesForecaster,
    ):
        """A trained model. It has only those prediction methods that belong to its task.

        Each prediction method takes one input or a list of them, and returns a list with one answer for each.
        """

        config: Any

        def score(self, texts: Any, *, prompt: str = "") -> list[Scored]:
            """Return how likely each token is, after a prompt if there is one; a translator scores pairs."""
            ...

else:
    Model = TaskModel
