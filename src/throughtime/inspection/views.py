"""Which views `throughtime inspect` can show of a loaded model."""

from __future__ import annotations

from typing import Any

from throughtime.errors import InputError
from throughtime.inspection.tables import tables
from throughtime.inspection.translation import require_translator
from throughtime.inspection.unit_gates import check_gates

VIEWS = ("attention", "beam", "gates", "embedding")


def views(model: Any) -> list[str]:
    """The names of the views that this model has; none for a model of counts or of series."""
    checks = {
        "attention": _check_attention,
        "beam": require_translator,
        "gates": check_gates,
        "embedding": tables,
    }
    found = []
    for view in VIEWS:
        try:
            checks[view](model)
        except InputError:
            continue
        found.append(view)
    return found


def _check_attention(model: Any) -> None:
    require_translator(model)
    if not model.attends:
        raise InputError("model", "has no attention")
