"""Searches in fixed shapes on an NVIDIA GPU: the first steps run as they are, the others from a CUDA graph.

A recording belongs to a model, the addresses of its weights, the shapes of its tensors and the options of the
strategy. Weights that change in place are seen by it; weights that are replaced make a new one. The number of
sentences is rounded up, so that few shapes occur, and the oldest recordings are dropped. All recordings
of a device share one pool of memory, so one search runs at a time, whatever the thread.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from throughtime.errors import ThroughtimeWarning
from throughtime.interrupt import check_interrupt
from throughtime.kernels.recording import record
from throughtime.search.constraints import BarredTokens
from throughtime.search.fixed import FixedRows, FixedSearch, FixedStrategy, Started, recording_key
from throughtime.search.generate import Constraint, Finished, StepModel, Strategy
from throughtime.search.history import read_results

MAX_RECORDINGS = 16
"""Each keeps the tensors of a search."""
MAX_HISTORY = 2**22
"""Rows times steps; longer searches use the plain loop."""
STEPS_AHEAD = 2
"""Steps that a GPU is given before it has said whether they are needed, so that it never waits."""
STEPS_BEFORE = 2
"""Steps that run before one is recorded: libraries allocate memory and load kernels in their first calls."""
LENGTH_STEP = 64


@runtime_checkable
class RecordableModel(StepModel, Protocol):
    """A step model whose `step` is a function of its arguments and of the weights of some modules alone."""

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """These modules; none if the step cannot be recorded."""
        ...


def suits(
    model: StepModel, strategy: Strategy, constraints: Sequence[Constraint], sentences: int, steps: int
) -> bool:
    """Whether a search can run from a recording; if not, it uses the plain loop."""
    if not isinstance(model, RecordableModel) or recording_key(strategy) is None:
        return False
    if len(_select(constraints)) < len(constraints):
        return False
    weight = next((weight for one in model.recorded_modules for weight in one.parameters()), None)
    if weight is None or weight.device.type != "cuda" or torch.version.hip is not None:
        return False
    each: int = getattr(strategy, "num_beams", getattr(strategy, "num_return_sequences", 1))
    return (
        round_up_sentences(sentences) * each * steps <= MAX_HISTORY
        and not torch.is_autocast_enabled("cuda")
        and not torch.cuda.is_current_stream_capturing()
        and not any(is_watched(one) or one.training for one in model.recorded_modules)
    )


def _select(constraints: Sequence[Constraint]) -> list[BarredTokens]:
    """The constraints that a recorded step may contain."""
    return [one for one in constraints if isinstance(one, BarredTokens)]


def is_watched(module: nn.Module) -> bool:
    """Whether a hook wants to be called at each step."""
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    return any(getattr(one, name) for one in module.modules() for name in hooks)


def round_up_sentences(count: int) -> int:
    """The number of sentences of a recording: a power of two, or three quarters of one.

    >>> [round_up_sentences(count) for count in (1, 3, 9, 40, 64, 100)]
    [1, 4, 12, 48, 64, 128]
    """
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 8 and count <= power * 3 // 4 else power


class RecordedSearch:
    """A search whose step is replayed from a CUDA graph, once it has been recorded."""

    def __init__(self, search: FixedSearch) -> None:
        self.search = search
        self.replay: Callable[[], None] | None = None
        self.failed = not search.last.is_cuda
        self._flag = LiveFlag(search.rows.live)

    def run(self, model: StepModel, most: int) -> int:
        """Run all steps, or until no row lives; return the number of steps."""
        self._flag.reset()
        for step in range(most):
            check_interrupt()
            if self.replay is None and not self.failed and step >= STEPS_BEFORE:
                self._record(model)
            if self.replay is None:
                self.search.advance(model)
            else:
                self.replay()
            if not self._flag.ask():
                return step + 1
        return most

    def _record(self, model: StepModel) -> None:
        """Record one step; recording runs nothing."""
        search, device, reference = self.search, self.search.last.device, weakref.ref(model)
        stream = _stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))

        def advance() -> None:
            found = reference()  # a recording must not keep its model alive
            assert found is not None
            search.advance(found)

        try:
            with torch.cuda.device(device):
                self.replay = record(advance, stream, _shared_pool(device))
        except RuntimeError as error:
            self.failed = True
            reason = str(error).splitlines()[0]
            problem = f"a step of this search cannot be recorded in a CUDA graph: {reason}"
            warnings.warn(problem, ThroughtimeWarning, stacklevel=2)


class LiveFlag:
    """Whether any row lives. A GPU is asked after every step, but its answer is read some steps later."""

    def __init__(self, live: Tensor) -> None:
        self._live = live
        self._flag = torch.empty((), dtype=torch.bool, pin_memory=live.is_cuda)
        events = STEPS_AHEAD + 1 if live.is_cuda else 0
        self._events = deque(torch.cuda.Event() for _ in range(events))

    def reset(self) -> None:
        """A new search begins."""
        self._flag.fill_(True)

    def ask(self) -> bool:
        """Ask about the steps up to now, and read an earlier answer, while the GPU computes."""
        self._flag.copy_(self._live.any(), non_blocking=True)
        if self._events:
            self._events.rotate()
            self._events[0].record()
            self._events[-1].synchronize()
        return bool(self._flag)


_LOCK = threading.Lock()
_RECORDINGS: OrderedDict[tuple[Hashable, ...], RecordedSearch] = OrderedDict()
_GONE: deque[int] = deque()
"""Models that are gone, whose recordings are still to be dropped."""
_STREAMS: dict[torch.device, torch.cuda.Stream] = {}
_POOLS: dict[torch.device, Any] = {}


@torch.inference_mode()
def search_fixed(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    constraints: Sequence[Constraint] = (),
) -> list[list[Finished]]:
    """Like `generate`, in fixed shapes; on a GPU from a recording."""
    assert isinstance(strategy, FixedStrategy)
    count = round_up_sentences(len(prompts))
    most = min(max_new_tokens, getattr(strategy, "max_length", None) or max_new_tokens)
    steps = -(-most // LENGTH_STEP) * LENGTH_STEP
    rows = strategy.begin_fixed(count, steps)
    real = len(rows.sentence) // count * len(prompts)
    rows.live[real:], rows.log_prob[real:] = False, -torch.inf
    with _LOCK:
        started = model.start([*prompts, *[prompts[-1]] * (count - len(prompts))])
        recording = _find_recording(model, strategy, constraints, rows, started, steps)
        recording.search.begin(rows, started)
        try:
            run = recording.run(model, most)
            return read_results(recording.search, strategy, rows.live.numpy(), len(prompts), run)
        finally:
            if started[0].is_cuda:
                torch.cuda.current_stream(started[0].device).synchronize()
            _drop_gone()


def _find_recording(
    model: StepModel,
    strategy: Strategy,
    constraints: Sequence[Constraint],
    rows: FixedRows,
    started: Started,
    steps: int,
) -> RecordedSearch:
    """The recording for a search that begins so; a new one if there is none."""
    assert isinstance(strategy, FixedStrategy)
    last, state, memory = started
    key = None
    if last.is_cuda and isinstance(model, RecordableModel):
        key = (
            id(model),
            _describe(weight for one in model.recorded_modules for weight in _weights(one)),
            tuple((part.shape, part.dtype) for part in (*rows, last, *state, *memory.kept)),
            (strategy.recording_key, tuple(constraints), steps, last.device),
            (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        )
        if key in _RECORDINGS:
            _RECORDINGS.move_to_end(key)
            return _RECORDINGS[key]
    barred = _select(constraints)
    recording = RecordedSearch(FixedSearch(strategy, barred, strategy.end_id, rows, started, steps))
    if key is not None:
        _RECORDINGS[key] = recording
        weakref.finalize(model, _forget, id(model))
        while len(_RECORDINGS) > MAX_RECORDINGS:
            _RECORDINGS.popitem(last=False)
    return recording


def _forget(model: int) -> None:
    """Drop the recordings of a model that is gone: now, or after a search that runs at this moment.

    The garbage collector may call this anywhere, even in the middle of a search in this thread.
    """
    _GONE.append(model)
    if _LOCK.acquire(blocking=False):
        try:
            _drop_gone()
        finally:
            _LOCK.release()


def _drop_gone() -> None:
    while _GONE:
        model = _GONE.popleft()
        for key in [key for key in _RECORDINGS if key[0] == model]:
            del _RECORDINGS[key]


def _weights(module: nn.Module) -> Iterable[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _describe(weights: Iterable[Tensor]) -> Hashable:
    return tuple((weight.data_ptr(), weight.shape, weight.dtype) for weight in weights)


def _shared_pool(device: torch.device) -> Any:
    """The pool of the recordings of a device; torch gives one up with its last recording."""
    own = [one for one in _RECORDINGS.values() if one.search.last.device == device]
    if device not in _POOLS or all(one.replay is None for one in own):
        _POOLS[device] = torch.cuda.graph_pool_handle()
    return _POOLS[device]


def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream that steps are recorded on."""
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)
    return _STREAMS[device]
