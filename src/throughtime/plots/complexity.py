"""Time and memory of kinds of layers against the length of the sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from throughtime.plots.style import COLOURS, figure, save

_PANELS = (
    ("milliseconds", "time of one training step (ms)"),
    ("megabytes", "memory kept for it (MB)"),
)


def complexity_plot(
    lengths: Sequence[int], layers: Mapping[str, Mapping[str, Any]], path: Path | str
) -> Path:
    """Draw time and memory of each layer on logarithmic axes, each line named with its fitted exponent.

    `layers` maps a name to `milliseconds` and `megabytes`, one number a length, and to
    `milliseconds_exponent` and `megabytes_exponent`.
    """
    with figure(9.0, 4.4) as drawing:
        for axes, (kind, label) in zip(drawing.subplots(1, 2), _PANELS, strict=True):
            for (name, measured), colour in zip(layers.items(), COLOURS, strict=False):
                grows = f"{name}, $n^{{{measured[f'{kind}_exponent']:.1f}}}$"
                axes.plot(lengths, measured[kind], "o-", color=colour, markersize=4, label=grows)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(lengths[::2])
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.set(xlabel="length n of the sequence", title=label)
            axes.legend(fontsize=9)
        return save(drawing, path)
