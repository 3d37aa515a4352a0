"""What a model says that lacks a prediction method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class TaskModel:
    """A model of one task: an error about a missing method lists the methods that it has."""

    if not TYPE_CHECKING:  # type checkers see the methods of each class

        def __getattr__(self, name: str) -> Any:
            """Explain a missing prediction method."""
            from throughtime.tasks import list_methods

            methods = [] if name.startswith("_") else list_methods()
            if name not in methods:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            present = [method for method in methods if hasattr(type(self), method)]
            raise AttributeError(
                f"a model of the task {self.task!r} has no method {name!r}; it has {', '.join(present)}"
            )
