"""What happens inside recurrent models: gradients through time, truncation, gates, attention, search."""

from __future__ import annotations

from typing import Any

from throughtime.errors import InputError

VIEWS = ("attention", "beam", "searches", "gates", "embedding")
"""The views of a trained model that `throughtime inspect` can show."""


def find_views(model: Any) -> list[str]:
    """List the views that a loaded model has; a model of series has none."""
    from throughtime.inspection.embeddings import tables
    from throughtime.inspection.gates import check_gates
    from throughtime.inspection.searches import check_searchable
    from throughtime.inspection.translation import check_attention, require_translator

    views = []
    checks = (check_attention, require_translator, check_searchable, check_gates, tables)
    for view, check in zip(VIEWS, checks, strict=True):
        try:
            check(model)
        except InputError:
            continue
        views.append(view)
    return views
