"""Which past windows conformal intervals are made of: so many that enough of what they forecast was observed.

A window of a series with gaps has scores only where a value came. What bounds an interval is the number of
scores of its own series and step, not that of the windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel
from throughtime.errors import InputError
from throughtime.series.conformal import windows_needed
from throughtime.series.rolling import Rolling

Counts = NDArray[np.int64]
MOST_EARLIER = 100  # windows: more tell little, and what is long ago tells of another time
USUAL_LEVEL = 90.0  # per cent, where no level is asked for


def scores_needed(levels: Sequence[float]) -> int:
    """How many scores make the widest interval finite; levels are in per cent.

    >>> scores_needed([80, 95])
    19
    """
    return windows_needed(max(levels, default=USUAL_LEVEL) / 100)


def windows_before(
    rolling: Rolling,
    panel: Panel,
    history: int,
    unseen: int | None,
    levels: Sequence[float],
    wanted: int | None = None,
    shared: bool = False,
) -> int:
    """How many windows the intervals of each tested one are made of: as asked for, else as many as there are.

    They lie in the `unseen` rows, unless that leaves too few scores. `shared` ones are those of all series.
    """
    needed = scores_needed(levels)
    if wanted is not None and wanted < needed:
        widest = max(levels, default=USUAL_LEVEL)
        problem = f"is {wanted}, and intervals of {widest:g} % take at least {needed}"
        raise InputError("--earlier-windows", problem)
    rows = min(len(series) for series in panel.series) - history
    room = rolling.room(rows if unseen is None else min(rows, unseen))
    earlier = wanted or max(needed, min(MOST_EARLIER, room))
    rolling.check(panel, history, earlier)
    if wanted is not None:
        return wanted
    most = min(rolling.room(rows), max(MOST_EARLIER, 2 * needed))
    return _enough(rolling, panel, earlier, most, needed, shared)


def scores_before(rolling: Rolling, panel: Panel, earlier: int, shared: bool = False) -> Counts:
    """How many observed scores `earlier` windows give each tested value, [W, S, h].

    >>> from throughtime.data.panel import Series
    >>> panel = Panel((Series.of("a", [1, 2, np.nan, 4, 5, 6]),), None)
    >>> scores_before(Rolling(n_windows=1, step_size=1, h=1), panel, earlier=4).ravel()
    array([3])
    """
    observed = _observed(panel, rolling.with_earlier(earlier).cuts[0])
    counts = np.zeros((rolling.n_windows, len(panel.series), rolling.h), dtype=np.int64)
    for back in range(earlier):
        counts += _scored(rolling, observed, back, shared)
    return counts


def observed_values(rolling: Rolling, panel: Panel) -> NDArray[np.bool_]:
    """Which of the tested values were observed, [W, S, h]."""
    return _cut(_observed(panel, rolling.cuts[0]), rolling.cuts, rolling.h)


def last_windows(
    panel: Panel, h: int, history: int, unseen: int | None, levels: Sequence[float], shared: bool = False
) -> Rolling:
    """Up to 100 windows at the end of the data, as far apart as there is room, a horizon at most.

    They lie in the `unseen` rows if enough fit there. Where gaps leave too few scores, all rows serve; and
    windows a row nearer to each other, for what is missing once a week falls on one step if they are a week
    apart.
    """
    needed = scores_needed(levels)
    rows = min(len(series) for series in panel.series) - history
    rooms = [rows]
    if unseen is not None and unseen >= h + needed - 1:
        rooms.insert(0, min(rows, unseen))
    choices = []
    for room in rooms:
        n_windows = max(needed, min(MOST_EARLIER, room - h + 1))
        apart = max(1, min(h, (room - h) // max(n_windows - 1, 1)))
        choices += [Rolling(n_windows, step_size, h) for step_size in (apart, max(1, apart - 1))]
    choices[0].check(panel, history)
    return next((one for one in choices if (_scores(one, panel, shared) >= needed).all()), choices[0])


def _scores(rolling: Rolling, panel: Panel, shared: bool) -> Counts:
    """How many of the values that these windows forecast were observed, [S, h] or of all series [h]."""
    counts: Counts = observed_values(rolling, panel).sum(axis=(0, 1) if shared else 0)
    return counts


def _enough(rolling: Rolling, panel: Panel, earlier: int, most: int, needed: int, shared: bool) -> int:
    """So many more than `earlier`, up to `most`, that every tested value has scores enough that can have."""
    counts, tested = scores_before(rolling, panel, earlier, shared), observed_values(rolling, panel)
    short, found = int((tested & (counts < needed)).sum()), earlier
    observed = _observed(panel, rolling.with_earlier(max(most, earlier)).cuts[0])
    for back in range(earlier, most):
        if not short:
            break
        counts += _scored(rolling, observed, back, shared)
        still = int((tested & (counts < needed)).sum())
        if still < short:
            short, found = still, back + 1
    return found


def _scored(rolling: Rolling, observed: NDArray[np.bool_], back: int, shared: bool) -> Counts:
    """Which values have a score from the window that lies `back` before the last one over: 1 or 0."""
    lag = rolling.step_size * (rolling.gap + back)
    scored: Counts = _cut(observed, [cut + lag for cut in rolling.cuts], rolling.h).astype(np.int64)
    return scored.sum(axis=1, keepdims=True) if shared else scored


def _observed(panel: Panel, rows: int) -> NDArray[np.bool_]:
    """Where the last rows of each series have a value, [S, rows]."""
    return np.stack([~np.isnan(series.y[len(series) - rows :]) for series in panel.series])


def _cut(observed: NDArray[np.bool_], cuts: Sequence[int], h: int) -> NDArray[np.bool_]:
    """The `h` rows after each origin, [W, S, h]."""
    rows = observed.shape[1]
    return np.stack([observed[:, rows - cut : rows - cut + h] for cut in cuts])
