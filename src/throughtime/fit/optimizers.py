"""Optimisers, clipping and averages of weights, and their state as named tensors."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.utils import get_total_norm
from torch.optim import SGD, Adam, AdamW, Optimizer

from throughtime.errors import InputError
from throughtime.fit.config import TrainingConfig

PREFIX = "optimizer."
AVERAGE_PREFIX = "average."
COUNT = "average.count"
YOUNG = 10
"""An exponential average covers at most the last tenth of its updates."""

OPTIMIZERS: dict[str, type[SGD | Adam]] = {
    "sgd": SGD,
    "adam": Adam,
    "adamw": AdamW,
    "nt-asgd": SGD,  # with `Averaging` once validation stalls
}


def build_optimizer(
    config: TrainingConfig, parameters: Iterable[Parameter], *, sparse: bool = False, **options: Any
) -> Optimizer:
    """Build the configured optimiser over these parameters.

    `sparse` says that some gradients will be sparse rows; see `supports_sparse_rows`. `options` are those of
    torch's class.
    """
    kind = OPTIMIZERS[config.optimizer]
    # Fused is also the fastest on a CPU: a third of the time of foreach for Adam, three fifths for SGD with
    # momentum, the same for plain SGD. There it reads each gradient as if it lay in memory as its parameter
    # does, which `backward` sees to. Fused kernels take no rows; torch's loop is as fast without momentum.
    own_options = {"momentum": config.momentum} if kind is SGD else {"betas": config.betas}
    options = {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "fused": not sparse,
        **own_options,
        **options,
    }
    _leave_compiler_out()
    return kind(list(parameters), **options)


def _leave_compiler_out() -> None:
    """Build an optimiser without torch's compiler, whose import takes longer than a short training.

    torch imports it when one of these methods is first called, to say that they are not to be compiled. The
    first update imports it, too, but a model that is fitted without updates has none.
    """
    if "torch._dynamo" not in sys.modules:
        for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
            plain = inspect.unwrap(getattr(Optimizer, name))
            plain.__dict__.setdefault("__dynamo_disable", plain)


def supports_sparse_rows(config: TrainingConfig, device: torch.device) -> bool:
    """Whether an update does not change weights with a zero gradient, as with plain SGD.

    An embedding then needs gradients only for the rows that it looked up, which saves memory. Not on a GPU,
    where the host would wait for the number of rows.
    """
    plain = OPTIMIZERS[config.optimizer] is SGD and not config.momentum and not config.weight_decay
    return plain and device.type == "cpu"


def use_sparse_rows(model: nn.Module, rows: bool) -> None:
    """Let embeddings return sparse gradients, except for tables shared with an output."""
    uses = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = rows and uses[id(module.weight)] == 1


def set_rate(optimizer: Optimizer, lr: float) -> None:
    """Change the learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state for a checkpoint, the counts of its steps included.

    >>> weight = Parameter(torch.ones(2))
    >>> optimizer = build_optimizer(TrainingConfig(optimizer="adam"), [weight])
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> list(optimizer_tensors(optimizer))
    ['optimizer.0.step', 'optimizer.0.exp_avg', 'optimizer.0.exp_avg_sq']
    """
    return {
        f"{PREFIX}{index}.{key}": value
        for index, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state from `optimizer_tensors`; other names are ignored.

    State that does not fit these parameters is refused before anything is changed.
    """
    kind, parameters = type(optimizer).__name__, _parameters(optimizer)
    shapes = [_state_shapes(optimizer, parameter) for parameter in parameters]
    states: list[dict[str, Tensor]] = []
    unknown = {name for name in tensors if name.startswith(PREFIX)}
    for index, state_shapes in enumerate(shapes):
        names = {key: f"{PREFIX}{index}.{key}" for key in state_shapes}
        unknown -= set(names.values())
        states.append({key: tensors[name] for key, name in names.items() if name in tensors})
        for key, shape in state_shapes.items() if states[-1] else ():
            if key not in states[-1]:
                raise _misfit(f"{names[key]}: it is missing, and {kind} needs it")
            _check_shape(names[key], states[-1][key], shape)
    if unknown:
        held = f"{kind} has no such state, and the model has {len(parameters)} parameters to train"
        raise _misfit(f"{min(unknown)}: {held}")
    for parameter, saved in zip(parameters, states, strict=True):
        state = optimizer.state[parameter]
        for key in state.keys() - saved.keys():
            del state[key]
        for key, value in saved.items():
            if key in state:
                state[key].copy_(value)  # in place: others may refer to this very memory
            else:
                state[key] = value.to(parameter.device, copy=True)


def _state_shapes(optimizer: Optimizer, parameter: Parameter) -> dict[str, torch.Size]:
    if isinstance(optimizer, SGD):
        has_momentum = optimizer.param_groups[0]["momentum"] != 0
        return {"momentum_buffer": parameter.shape} if has_momentum else {}
    return {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}


def _parameters(optimizer: Optimizer) -> list[Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], largest: float | None) -> Tensor:
    """Clip the global norm in place, g <- min(1, largest / |g|) g, and return |g| from before clipping.

    With None nothing is clipped. The norm stays on the device, so the host does not wait for it; it may be
    infinite or NaN.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_gradients([weight], 1.0), weight.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    owners = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = []
    for owner in owners:
        gradient = owner.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = gradient.coalesce()  # one row for a word that occurs twice in a batch
            if largest is not None:
                owner.grad = gradient
            gradient = gradient.values()
        gradients.append(gradient)
    norm = get_total_norm(gradients)
    # On a CPU the norm can be read at once, which saves a pass over all gradients when it is small.
    if largest is not None and (norm.device.type != "cpu" or not norm <= largest):
        torch._foreach_mul_(gradients, (largest / norm).clamp(max=1))
    return norm


def first_trigger(scores: Sequence[float], nonmono: int) -> int | None:
    """The epoch, counted from 0, after which NT-ASGD begins to average (Merity et al. 2018, algorithm 1).

    It is the first whose score is worse than the best of those before it, the `nonmono` last ones aside.

    >>> first_trigger([4.0, 4.5, 4.6, 4.2], nonmono=2)
    3
    >>> first_trigger([4.0, 4.5, 4.6, 3.9], nonmono=2) is None
    True
    """
    best = float("inf")
    for epoch in range(nonmono + 1, len(scores)):
        best = min(best, scores[epoch - nonmono - 1])
        if scores[epoch] > best:
            return epoch
    return None


class Averaging:
    """The running average of some parameters, beside them.

    `ema` averages from the first update on, with weight `1 - decay` for the newest, and more for as long as
    that would look back on more than the last tenth of the updates: the weights that training began with are
    no model yet. `uniform` is the plain mean of all updates since `begin`. `none` never averages.

    >>> weight = torch.zeros(1)
    >>> averaging = Averaging([weight], "uniform")
    >>> averaging.begin()
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = weight.fill_(value)
    ...     averaging.update(torch.tensor(True))
    >>> with averaging.apply_averages():
    ...     print(weight)
    tensor([3.])
    >>> weight
    tensor([6.])
    """

    def __init__(
        self, parameters: Iterable[Tensor], kind: Literal["none", "ema", "uniform"], decay: float = 0.999
    ) -> None:
        self._parameters = list(parameters)
        self._kind, self._decay = kind, decay
        self._averages: list[Tensor] = []
        self._swapped = False
        if kind == "ema":
            self.begin()

    @property
    def active(self) -> bool:
        """Whether updates are being averaged."""
        return bool(self._averages)

    def begin(self) -> None:
        """Average from the next update on; does nothing if averaging has begun."""
        if self.active or self._kind == "none":
            return
        self._averages = [parameter.detach().clone() for parameter in self._parameters]
        # On the device, so that the host need not wait to count on.
        self._count = torch.zeros((), dtype=torch.int64, device=self._parameters[0].device)

    def update(self, stepped: Tensor) -> None:
        """Add the parameters after a step of the optimiser, without waiting for the device.

        A false `stepped` says that the step was skipped: nothing is added.
        """
        if self.active:  # asked first, as to turn gradients off takes time in every update
            self._add(stepped)

    @torch.no_grad()
    def _add(self, stepped: Tensor) -> None:
        self._count += stepped
        if self._kind == "ema":
            weight = (YOUNG / (self._count.double() + YOUNG - 1)).clamp(min=1 - self._decay)
        else:
            weight = self._count.double().reciprocal()
        weight = torch.where(stepped, weight, 0.0)
        weights = {dtype: weight.to(dtype) for dtype in {average.dtype for average in self._averages}}
        shares = [weights[average.dtype] for average in self._averages]
        torch._foreach_lerp_(self._averages, self._parameters, shares)

    @contextlib.contextmanager
    def apply_averages(self) -> Iterator[None]:
        """Put the averages into the parameters for the length of the block, if averaging is active."""
        if self._swapped:
            raise RuntimeError("the averages are applied already")
        self._swap()
        self._swapped = True
        try:
            yield
        finally:
            self._swapped = False
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """Return the averages for a checkpoint; empty if averaging is not active."""
        if self._swapped:
            raise RuntimeError("the averages are applied: leave that block before saving them")
        if not self.active:
            return {}
        averages = {f"{AVERAGE_PREFIX}{index}": average for index, average in enumerate(self._averages)}
        return {COUNT: self._count, **averages}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the averages from `tensors`; other names are ignored."""
        saved = {name: value for name, value in tensors.items() if name.startswith(AVERAGE_PREFIX)}
        if not saved:
            return
        if self._kind == "none":
            raise _misfit("it holds averaged weights, and this run averages none")
        if len(saved) != len(self._parameters) + 1 or COUNT not in saved:
            raise _misfit(f"it holds {len(saved) - 1} averages for {len(self._parameters)} parameters")
        for index, parameter in enumerate(self._parameters):
            name = f"{AVERAGE_PREFIX}{index}"
            _check_shape(name, saved[name], parameter.shape)
        self.begin()
        self._count.copy_(saved[COUNT])
        for index, average in enumerate(self._averages):
            average.copy_(saved[f"{AVERAGE_PREFIX}{index}"])

    @torch.no_grad()
    def _swap(self) -> None:
        # By value, one tensor at a time: references to the memory of a parameter (optimiser, view) stay
        # valid, and no second set of weights is needed.
        for index, average in enumerate(self._averages):
            held = self._parameters[index].clone()
            self._parameters[index].copy_(average)
            average.copy_(held)


def _check_shape(name: str, value: Tensor, shape: torch.Size) -> None:
    if value.shape != shape:
        raise _misfit(f"{name} has shape {list(value.shape)}, the parameter has {list(shape)}")


def _misfit(problem: str) -> InputError:
    return InputError(
        "checkpoint", f"{problem}; resume with the model and the optimizer that the run began with"
    )
