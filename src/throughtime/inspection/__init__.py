"""Looking into recurrences: how gradients travel through time, what a truncation costs, what gates do."""

from throughtime.inspection.gradients import (
    Bound,
    by_weights,
    closed_form,
    descent_bound,
    local_derivatives,
    recursion,
)

__all__ = ["Bound", "by_weights", "closed_form", "descent_bound", "local_derivatives", "recursion"]
