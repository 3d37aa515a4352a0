"""The prediction methods of the tasks, and what a model says that lacks one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
