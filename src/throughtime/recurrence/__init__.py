"""Running a cell through time."""

from throughtime.recurrence.backend import Backend, Result
from throughtime.recurrence.choice import BACKENDS
from throughtime.recurrence.scan import scan

__all__ = ["BACKENDS", "Backend", "Result", "scan"]
