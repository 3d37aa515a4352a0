"""A language model that was trained before, as a reader of words in their sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.models.language import STEPS_AT_ONCE, RecurrentLanguageModel


class FrozenReader:
    """The states of a language model where each word is over; it learns nothing more.

    It is no module on purpose: neither an optimiser nor a checkpoint of the model that uses it has to hold
    its weights. It follows what it reads to its device.

    >>> model = RecurrentLanguageModel(28, embedding_size=16)
    >>> ids, places = torch.zeros(9, 2, dtype=torch.long), torch.tensor([[3, 2], [8, 0]])
    >>> FrozenReader(model)(ids, places).shape
    torch.Size([2, 2, 16])
    """

    def __init__(self, model: RecurrentLanguageModel) -> None:
        self.model = model.eval().requires_grad_(False)

    @property
    def output_size(self) -> int:
        """The width of a state."""
        return self.model.stack.output_size

    @torch.no_grad()
    def __call__(self, ids: Tensor, places: Tensor) -> Tensor:
        """Read ids [R, B] and keep the outputs at `places` [T, B]: [T, B, H]."""
        if self.model.embedding.weight.device != ids.device:
            self.model.to(ids.device)
        state = self.model.initial_state(ids.shape[1])
        kept = torch.zeros(*places.shape, self.output_size, device=ids.device)
        # Piece by piece, so that long sentences need no more memory than their words do.
        for first in range(0, len(ids), STEPS_AT_ONCE):
            outputs, _, state = self.model(ids[first : first + STEPS_AT_ONCE], state)
            place = places - first
            here = ((place >= 0) & (place < len(outputs)))[..., None]
            chosen = place.clamp(0, len(outputs) - 1)[..., None].expand(-1, -1, outputs.shape[2])
            kept = torch.where(here, outputs.gather(0, chosen).float(), kept)
        return kept
