"""The gates of a cell at each step, recorded while the cell runs, alone or in a trained model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError
from throughtime.layers.stack import Stack
from throughtime.models.cell_titles import find_reader, title_cells
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.text.codec import labels, pieces

MAX_TOKENS = 400
MAX_HALF_LIFE = 1000.0
"""Maximum half-life in tokens; no sentence is longer."""

Module = TypeVar("Module", bound=nn.Module)
Values = NDArray[np.float32]
_ACTIVATIONS = (
    *(torch.sigmoid, torch.tanh, torch.relu),
    *(Tensor.sigmoid, Tensor.tanh, Tensor.relu),
    *(functional.sigmoid, functional.tanh, functional.relu),
)


class _Recorder(TorchFunctionMode):
    """Records the results of sigmoid, tanh and relu in a step, so that equations are written only once.

    The step goes on with `held` values in place of the results, where they are not None.
    """

    def __init__(self, held: Sequence[Tensor | None]) -> None:
        super().__init__()
        self.values: list[Tensor] = []
        self.held = iter(held)

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), options: Any = None
    ) -> Any:
        value = function(*args, **(options or {}))
        if function not in _ACTIVATIONS:
            return value
        self.values.append(value)
        held = next(self.held, None)
        return value if held is None else held


def gates(cell: Cell, x: Tensor) -> dict[str, Tensor]:
    """Compute all gates, candidates and states of one sequence x [T, I], by their letters: each [T, H].

    >>> from throughtime.cells import GRU
    >>> sorted(gates(GRU(3, 5), torch.zeros(7, 3)))
    ['h', 'n', 'r', 'z']
    """
    state, rows = cell.initial_state(1), []
    with torch.no_grad():
        for projected in cell.project(x[:, None]):
            state, values = step_gates(cell, projected, state)
            rows.append(values)
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def step_gates(
    cell: Cell, projected: Tensor, state: State, *, held: Mapping[str, Tensor] = MappingProxyType({})
) -> tuple[State, dict[str, Tensor]]:
    """Compute the next state, and the values of the step by their letters: each [B, H].

    For a cell that declares no `activations`, the values are only its states. With `held`, the step goes on
    with these values in place of those that it computes.
    """
    names = cell.activations if held else ()
    with _Recorder(
        [torch.cat([held[name] for name in parts], -1) if parts else None for parts in names]
    ) as recorder:
        reached = type(cell).step(cell, projected, state)
    values = _name_values(cell, recorder.values, len(projected)) if cell.activations else {}
    return reached, values | dict(zip(cell.state_names, reached, strict=True))


def random_step(cell: Cell) -> tuple[Tensor, State]:
    """Draw the input of one step, [1, 1, I], and a state for it."""
    generator, zeros = torch.Generator().manual_seed(0), cell.initial_state(1)
    x = zeros[0].new_zeros(1, 1, cell.input_size)
    drawn = [torch.randn(like.shape, generator=generator).to(like) for like in (x, *zeros)]
    return drawn[0], tuple(drawn[1:])


@torch.no_grad()
def check_keeping_gate(cell: Cell) -> None:
    """Raise if a cell declares a keeping gate that is not the exact share of the old state that is kept.

    If a tensor of the state grows by 1 and all gates are held, the next state grows by this share.
    """
    gate = cell.keeping_gate
    if gate is None:
        return
    x, state = random_step(cell)
    projected = cell.project(x)[0]
    reached, values = step_gates(cell, projected, state)
    for number, tensor in enumerate(state):
        moved = (*state[:number], tensor + 1, *state[number + 1 :])
        share = step_gates(cell, projected, moved, held=values)[0][number] - reached[number]
        if share.shape == values[gate].shape and torch.allclose(share, values[gate], atol=1e-3):
            return
    problem = f"declares {gate!r} as its keeping gate, but keeps another share of its state than its value"
    raise InputError(type(cell).__name__, f"{problem}; name the gate that multiplies the old state, or None")


def _name_values(cell: Cell, values: list[Tensor], batch: int) -> dict[str, Tensor]:
    if len(cell.activations) != len(values):
        calls = f"declares {len(cell.activations)} activations, but its step calls sigmoid, tanh and relu"
        cure = f"{len(values)} times; name each call in `activations`, with () for a result that is not shown"
        raise InputError(type(cell).__name__, f"{calls} {cure}")
    by_name: dict[str, Tensor] = {}
    for parts, value in zip(cell.activations, values, strict=True):
        if parts:
            rows = value.expand(batch, -1)  # a gate that depends on neither input nor state has one row
            by_name |= dict(zip(parts, rows.chunk(len(parts), dim=-1), strict=True))
    return by_name


@dataclass(frozen=True)
class LayerGates:
    """The gates, candidates and states of one cell: [tokens, units] by the letters of its equations."""

    name: str
    cell: str
    tokens: tuple[str, ...]
    values: dict[str, Values]
    keep: str | None  # the gate that keeps the old state

    @property
    def gates(self) -> list[str]:
        """The letters, beginning with the gate that keeps the state."""
        return sorted(self.values, key=lambda letter: letter != self.keep)

    @cached_property
    def half_lives(self) -> NDArray[np.float64] | None:
        """The number of tokens after which half of a unit's state is left, if its gate has its mean value.

        The mean is geometric, since what is kept is a product. None for a cell without such a gate.
        """
        if self.keep is None:
            return None
        mean_log = np.log(np.clip(self.values[self.keep].astype(np.float64), 1e-12, 1.0)).mean(axis=0)
        lives: NDArray[np.float64] = math.log(0.5) / np.minimum(mean_log, math.log(0.5) / MAX_HALF_LIFE)
        return lives

    @property
    def order(self) -> list[int]:
        """The units by half-life, longest first; without half-lives, by standard deviation."""
        spread = self.values["h"].std(axis=0) if self.half_lives is None else self.half_lives
        return [int(unit) for unit in np.argsort(-spread, kind="stable")]

    def choose_units(self, units: int) -> list[int]:
        """Choose this number of units evenly from that order, including the first and the last."""
        order = self.order
        if units >= len(order):
            return order
        places = np.linspace(0, len(order) - 1, units).round().astype(int)
        return [order[position] for position in places]

    def to_dict(self, units: int) -> dict[str, Any]:
        """Return everything for this number of units, ready for JSON; values are [units][tokens]."""
        chosen = [unit for unit in self.choose_units(units) if unit < self.values["h"].shape[1]]
        lives = self.half_lives
        return {
            "name": self.name,
            "cell": self.cell,
            "tokens": list(self.tokens),
            "gates": self.gates,
            "keep": self.keep,
            "units": chosen,
            "all_units": len(self.order),
            "half_lives": None if lives is None else [round(float(lives[unit]), 2) for unit in chosen],
            "values": {
                letter: np.round(self.values[letter][:, chosen].T.astype(float), 4).tolist()
                for letter in self.gates
            },
        }


@torch.inference_mode()
def unit_gates(model: Any, text: str) -> list[LayerGates]:
    """Record the gates of every layer and direction of a loaded model while it reads a text.

    For a translator this includes the decoder. Layers without gates have only states; a model without any
    gates is an error.
    """
    check_gates(model)
    network: Any = model.model
    if isinstance(network, EncoderDecoder):
        return _watch_translator(model, network, text)
    if tags(model):
        return _watch_tagger(model, network, text)
    stack, embedding = find_reader(network)
    framing = getattr(model, "framing", None)
    codec = model.codec if framing is None else framing.codec
    ids = codec.encode(text) if framing is None else framing.ids(text, end=False)
    _check(text, ids)
    network.eval()
    x = embedding(torch.tensor(ids, device=embedding.weight.device)[:, None])
    return _watch_stack(stack, x, labels(pieces(codec, ids)))


def check_gates(model: Any) -> None:
    """Raise if a loaded model has no gates to show."""
    network = getattr(model, "model", None)
    translates = isinstance(network, EncoderDecoder) and hasattr(model, "codecs")
    if not translates and not tags(model):
        stack, embedding = find_reader(network)
        if not isinstance(stack, Stack) or not isinstance(embedding, nn.Embedding):
            raise InputError("model", "has no recurrent layers that read tokens, so it has no gates to show")
    assert isinstance(network, nn.Module)
    cells = [part for part in network.modules() if isinstance(part, Cell)]
    if not any(cell.activations for cell in cells):
        names = " and ".join(sorted({type(cell).__name__ for cell in cells}))
        raise InputError("model", f"has layers of {names} cells, which have no gates")


def tags(model: Any) -> bool:
    """Whether a loaded model is a tagger, which reads whole words instead of tokens of a codec."""
    return hasattr(model, "tag_words")


def _watch_stack(stack: Stack, x: Tensor, tokens: Sequence[str], part: str = "layer") -> list[LayerGates]:
    watched, seen = _watch(stack)
    watched(x, None, backend="reference")
    return _layers(watched, seen, part, tokens)


def _watch_tagger(model: Any, network: Any, text: str) -> list[LayerGates]:
    words = text.split()
    _check(text, words)
    entered: list[Tensor] = []
    with network.stack.register_forward_pre_hook(lambda module, inputs: entered.append(inputs[0])):
        model.tag_words([words])
    return _watch_stack(network.stack, entered[0], words)


def _watch_translator(model: Any, network: EncoderDecoder, text: str) -> list[LayerGates]:
    codecs = model.codecs
    prompt = codecs.prompt(text)
    _check(text, prompt)
    network.eval()
    [result] = model.run_search([prompt], model.build_search("beam"), shortlist=model.choose_shortlist())
    written = [network.bos_id, *result.results[0].tokens]
    device = next(network.parameters()).device
    source = torch.tensor(prompt, device=device)[:, None]
    encoder: Any = network.encoder
    layers = _watch_stack(
        encoder.stack, encoder.embedding(source), labels(pieces(codecs.source, prompt)), "encoder layer"
    )
    watched, seen = _watch(network.decoder)
    state, memory = network.encode(source, torch.tensor([len(prompt)]))
    for token in written:
        state = watched.step(torch.tensor([token], device=device), state, memory).state
    return layers + _layers(watched, seen, "decoder layer", labels(pieces(codecs.target, written)))


def _check(text: str, tokens: Sequence[Any]) -> None:
    if not text.strip() or not tokens:
        raise InputError("sentence", "is empty; give some words to read")
    if len(tokens) > MAX_TOKENS:
        problem = f"has {len(tokens)} tokens, expected at most {MAX_TOKENS}; give a shorter one"
        raise InputError("sentence", problem)


Seen = dict[str, list[dict[str, Tensor]]]


def _watch(module: Module) -> tuple[Module, Seen]:
    """Copy a module with shared weights, so that its cells record the gates of every step.

    It is a copy because the model itself may be running in another thread.
    """
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    double = copy.deepcopy(module, cast(dict[int, Any], shared))
    seen: Seen = {}
    for name, cell in double.named_modules():
        if isinstance(cell, Cell):
            seen[name] = []
            cell.__dict__["step"] = partial(_step_and_note, cell, seen[name])
            cell.__dict__["equations"] = ""  # nothing that knows them computes the step faster
    return double, seen


def _step_and_note(cell: Cell, rows: list[dict[str, Tensor]], projected: Tensor, state: State) -> State:
    reached, values = step_gates(cell, projected, state)
    rows.append(values)
    return reached


def _layers(module: nn.Module, seen: Seen, part: str, tokens: Sequence[str]) -> list[LayerGates]:
    cells = [(name, module.get_submodule(name)) for name, rows in seen.items() if rows]
    layers = []
    for (name, cell), title in zip(cells, title_cells([name for name, _ in cells], part), strict=True):
        assert isinstance(cell, Cell)
        check_keeping_gate(cell)
        rows = seen[name][::-1] if name.endswith("from_right") else seen[name]
        joined = {letter: torch.cat([row[letter] for row in rows]) for letter in rows[0]}
        values = {letter: value.float().cpu().numpy() for letter, value in joined.items()}
        layers.append(LayerGates(title, type(cell).__name__, tuple(tokens), values, cell.keeping_gate))
    return layers
