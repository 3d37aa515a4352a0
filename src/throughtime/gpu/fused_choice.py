"""The choice of a step with kernels on an NVIDIA GPU, in place of many small operations of torch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch import Tensor

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu.beam import BeamOptions, BeamStep, BeamTensors, fits
from throughtime.search.generate import MIN_LOG_PROBABILITY

if TYPE_CHECKING:
    from throughtime.gpu.fixed_search import FixedSearch


def fuse_choice(options: BeamOptions, search: FixedSearch, log_probs: Tensor) -> BeamStep | None:
    """Return kernels that choose and write the history of a search; None if they do not fit it."""
    end_id = options.end_id
    barred = [(token, one.until) for one in search.constraints for token in one.tokens]
    ids = [token for token, _ in barred] + [0 if end_id is None else end_id]
    ids_in_vocabulary = min(ids) >= 0 and max(ids) < log_probs.shape[1]
    constraints_supported = bool(search.constraints) == bool(barred) and not (barred and end_id is None)
    if not (ids_in_vocabulary and constraints_supported and fits(options, log_probs)):
        return None
    tensors = BeamTensors(
        search.rows.length,
        search.rows.log_prob,
        search.rows.live,
        search.last,
        search.came_from,
        search.rows.best,
        search.tokens,
        search.parents,
        search.log_probs,
        search.ended,
        search.live,
        search.reached,
    )
    try:
        return BeamStep(options, tensors, log_probs.shape[1], barred, MIN_LOG_PROBABILITY)
    except ThroughtimeError as error:
        warnings.warn(f"the search runs without its kernels: {error}", ThroughtimeWarning, stacklevel=2)
        return None
