"""Running a cell through time."""

from throughtime.recurrence.backend import Backend, Result
from throughtime.recurrence.choice import BACKENDS
from throughtime.recurrence.scan import scan
from throughtime.recurrence.steps import AlikeRows

__all__ = ["BACKENDS", "AlikeRows", "Backend", "Result", "scan"]
