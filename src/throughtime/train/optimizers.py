"""torch's optimisers in their fastest right form, and their state as named tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer

from throughtime.errors import InputError, unknown

PREFIX = "optimizer."


@dataclass(frozen=True)
class Settings:
    """What an optimiser is built with; `capturable` where a CUDA graph may replay its step."""

    rate: float | Tensor
    momentum: float
    betas: tuple[float, float]
    weight_decay: float
    capturable: bool
    sparse: bool


# Fused is also the fastest on a CPU: a third of the time of foreach for Adam, three fifths for SGD with
# momentum, the same for plain SGD. There it reads each gradient as if it lay in memory as its parameter
# does, which `backward` sees to.


def _sgd(parameters: list[Parameter], settings: Settings) -> Optimizer:
    return SGD(
        parameters,
        lr=settings.rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=not settings.sparse,  # fused kernels know no rows; torch's loop is as fast without momentum
    )


def _adam(parameters: list[Parameter], settings: Settings) -> Optimizer:
    return Adam(
        parameters,
        lr=settings.rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        capturable=settings.capturable,
        fused=True,
    )


def _adamw(parameters: list[Parameter], settings: Settings) -> Optimizer:
    return AdamW(
        parameters,
        lr=settings.rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        capturable=settings.capturable,
        fused=True,
    )


OPTIMIZERS: dict[str, Callable[[list[Parameter], Settings], Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
    "nt-asgd": _sgd,  # what it adds is in throughtime.train.averaging
}


def build(
    name: str,
    parameters: Iterable[Parameter],
    *,
    lr: float,
    momentum: float,
    betas: tuple[float, float],
    weight_decay: float,
    device: torch.device,
    sparse: bool = False,
) -> Optimizer:
    """The optimiser of this name over these parameters, which lie on `device`.

    `sparse` says that some gradients will be rows of their parameters; ask `takes_rows` first.

    On a GPU the rate is a tensor there, so that a CUDA graph sees it change. Capture a step only after a
    first one has been taken: that one makes the optimiser's state.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    on_gpu = device.type == "cuda"
    return OPTIMIZERS[name](
        list(parameters),
        Settings(
            rate=torch.tensor(lr, device=device) if on_gpu else lr,
            momentum=momentum,
            betas=betas,
            weight_decay=weight_decay,
            capturable=on_gpu,
            sparse=sparse,
        ),
    )


def takes_rows(name: str, *, momentum: float, weight_decay: float, device: torch.device) -> bool:
    """Whether an update leaves weights without a gradient as they are: plain SGD alone does.

    Then an embedding need only give the rows that it looked up, which is the same update with less memory.
    Not on a GPU, where the host would wait to learn how many rows there are.
    """
    return OPTIMIZERS.get(name) is _sgd and not momentum and not weight_decay and device.type == "cpu"


def give_rows(model: nn.Module, rows: bool) -> None:
    """Let embeddings give the gradient of looked-up rows alone, but for tables that an output shares."""
    uses = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            part.sparse = rows and uses[id(part.weight)] == 1


def set_rate(optimizer: Optimizer, lr: float) -> None:
    """Change the learning rate, without waiting for the device."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state for a checkpoint, the counts of its steps included.

    >>> weight = Parameter(torch.ones(2))
    >>> optimizer = build("adam", [weight], lr=0.1, momentum=0, betas=(0.9, 0.999), weight_decay=0,
    ...                   device=torch.device("cpu"))
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> list(tensors(optimizer))
    ['optimizer.0.step', 'optimizer.0.exp_avg', 'optimizer.0.exp_avg_sq']
    """
    return {
        f"{PREFIX}{index}.{key}": value
        for index, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Take over the state that `tensors` gave; names that are not the optimiser's are passed over.

    Refuses, before anything is changed, what does not fit these parameters.
    """
    parameters = _parameters(optimizer)
    found: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith(PREFIX):
            number, _, key = name.removeprefix(PREFIX).partition(".")
            if not number.isdecimal() or int(number) >= len(parameters):
                raise _misfit(name, f"the model has {len(parameters)} parameters to train")
            found.setdefault(int(number), {})[key] = value
    for index, state in found.items():
        _check(optimizer, index, parameters[index], state)
    for index, parameter in enumerate(parameters):
        _take_over(optimizer.state[parameter], found.get(index, {}), parameter.device)


def _check(optimizer: Optimizer, index: int, parameter: Parameter, state: Mapping[str, Tensor]) -> None:
    wanted = _state_shapes(optimizer, parameter)
    for key in state.keys() - wanted.keys():
        raise _misfit(f"{PREFIX}{index}.{key}", f"{type(optimizer).__name__} keeps nothing of that name")
    for key, shape in wanted.items():
        name = f"{PREFIX}{index}.{key}"
        if key not in state:
            raise _misfit(name, f"it is missing, and {type(optimizer).__name__} needs it")
        if state[key].shape != shape:
            raise _misfit(
                name, f"its shape is {list(state[key].shape)}, the model's parameter has {list(shape)}"
            )


def _state_shapes(optimizer: Optimizer, parameter: Parameter) -> dict[str, torch.Size]:
    if isinstance(optimizer, SGD):
        has_momentum = optimizer.param_groups[0]["momentum"] != 0
        return {"momentum_buffer": parameter.shape} if has_momentum else {}
    return {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}


def _take_over(state: dict[str, Tensor], saved: Mapping[str, Tensor], device: torch.device) -> None:
    for key in state.keys() - saved.keys():
        del state[key]
    for key, value in saved.items():
        if key in state:
            state[key].copy_(value)  # in place: a captured step goes on with this very memory
        else:
            state[key] = value.to(device, copy=True)


def _parameters(optimizer: Optimizer) -> list[Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _misfit(name: str, problem: str) -> InputError:
    return InputError(
        "the checkpoint",
        f"{name} does not fit: {problem}; go on with the model and optimizer that the run began with",
    )
