"""All that `train wordcount` can be told."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from throughtime.config import architecture
from throughtime.fit.config import TrainingConfig


class WordCountConfig(TrainingConfig):
    """A counter of words."""

    data: str = Field(description="a file of text")
    cell: str = architecture("gru", description="cell that reads the characters")
    hidden_size: int = architecture(8, ge=1, description="units of the layer")
    num_layers: int = architecture(1, ge=1, description="layers on top of each other")

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"layout": "lines"}
