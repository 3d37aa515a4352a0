"""Save and load the weights of a model by name; shared weights are stored once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from throughtime.errors import InputError
from throughtime.folder import ModelFolder


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a tied table has the name of its first use."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy saved weights into the model; an error names what does not fit."""
    own = named_weights(model)
    for name in [*own, *tensors]:
        if name not in tensors:
            raise InputError(where, f"has no weights {name!r}: it belongs to another model")
        if name not in own:
            raise InputError(where, f"has weights {name!r} that the model lacks: it belongs to another model")
        if own[name].shape != tensors[name].shape:
            got, wanted = list(tensors[name].shape), list(own[name].shape)
            raise InputError(where, f"has {name!r} of shape {got}, the model has {wanted}")
    for name, weight in own.items():
        weight.copy_(tensors[name])


def save_weights(model: nn.Module, folder: ModelFolder) -> None:
    """Write the weights into the folder of a model."""
    weights = named_weights(model)
    folder.write_tensors({name: weight.detach().cpu().numpy() for name, weight in weights.items()})


def read_weights(model: nn.Module, folder: ModelFolder) -> None:
    """Read the weights from the folder of a model; an error names what does not fit."""
    tensors = {name: torch.from_numpy(array) for name, array in folder.read_tensors().items()}
    load_weights(model, tensors, str(folder.path / "model.safetensors"))
