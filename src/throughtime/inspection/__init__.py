"""Looking into recurrences: how gradients travel through time, what a truncation costs, what gates do."""

from throughtime.inspection.descent_bound import Bound, descent_bound
from throughtime.inspection.jacobians import by_weights, closed_form, local_derivatives, recursion

__all__ = ["Bound", "by_weights", "closed_form", "descent_bound", "local_derivatives", "recursion"]
