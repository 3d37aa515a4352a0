"""Save and load the weights of a model by name; shared weights are stored once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a tied table has the name of its first use."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy saved weights into the model; an error names what does not fit or is not finite.

    All names and shapes are compared first. A weight on torch's meta device, without memory, gets its own.
    """
    weights = named_weights(model)
    for name in [*weights, *tensors]:
        if name not in tensors:
            raise InputError(where, f"has no weights {name!r}: it belongs to another model")
        if name not in weights:
            raise InputError(where, f"has weights {name!r} that the model lacks: it belongs to another model")
        if weights[name].shape != tensors[name].shape:
            got, expected = list(tensors[name].shape), list(weights[name].shape)
            raise InputError(where, f"has {name!r} of shape {got}, the model has {expected}")
        if weights[name].is_meta and weights[name].dtype != tensors[name].dtype:
            raise InputError(
                where, f"has {name!r} in {tensors[name].dtype}, the model has {weights[name].dtype}"
            )
    for name, weight in weights.items():
        if not is_finite(tensors[name]):
            raise InputError(where, f"has {name!r} with values that are not finite; the model is damaged")
        if weight.is_meta:
            # All that refer to the weight, such as a table that two layers share, see the new one.
            torch.utils.swap_tensors(weight, _like(weight, tensors[name].clone()))
        else:
            weight.copy_(tensors[name])


def is_finite(tensor: Tensor) -> bool:
    """Return whether a tensor holds neither infinities nor NaN; takes no memory.

    >>> is_finite(torch.tensor([1.0, float("nan")])), is_finite(torch.zeros(0)), is_finite(torch.tensor(3))
    (False, True, True)
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(bool(torch.isfinite(bound)) for bound in torch.aminmax(tensor))


def load_network(build: Callable[[], nn.Module], folder: ModelFolder) -> nn.Module:
    """Build the network that a folder describes, with its weights.

    It is built without memory and compared with the file of the weights first: a configuration with other
    sizes costs nothing, and the layers end where the file has no more tensors.
    """
    tensors = folder.read_tensors("pt")
    where = str(folder.path / "config.json")
    try:
        with _limited_parts(4 * len(tensors) + 1_000, where), torch.device("meta"), _WithoutValues():
            model = build()
    except ThroughtimeError:
        raise
    except Exception as error:  # of torch, for sizes that no tensor can have
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(where, f"describes a network that cannot be built ({reason})") from error
    load_weights(model, tensors, str(folder.path / "model.safetensors"))
    return model


class _WithoutValues(TorchFunctionMode):
    """Leaves out what sets values: first weights on the meta device have none, and torch takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = getattr(func, "__name__", ""), kwargs or {}
        if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
            return args[0] if args else options["tensor"]
        return func(*args, **options)


@contextlib.contextmanager
def _limited_parts(limit: int, where: str) -> Iterator[None]:
    """Refuse to build a network of more parts, in this thread."""
    thread, count = threading.get_ident(), 0

    def hook(*registered: object) -> None:
        nonlocal count
        count += threading.get_ident() == thread
        if count > limit:
            raise InputError(where, "describes more layers than model.safetensors has tensors for")

    hooks = [
        register_module_module_registration_hook(hook),
        register_module_parameter_registration_hook(hook),
    ]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


def _like(weight: Tensor, values: Tensor) -> Tensor:
    return nn.Parameter(values, weight.requires_grad) if isinstance(weight, nn.Parameter) else values


def save_weights(model: nn.Module, folder: ModelFolder) -> None:
    """Write the weights into the folder of a model."""
    weights = named_weights(model)
    folder.write_tensors({name: weight.detach().cpu().numpy() for name, weight in weights.items()})


def read_weights(model: nn.Module, folder: ModelFolder) -> None:
    """Read the weights from the folder of a model; an error names what does not fit."""
    load_weights(model, folder.read_tensors("pt"), str(folder.path / "model.safetensors"))
