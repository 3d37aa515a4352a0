"""Searches in fixed shapes on an NVIDIA GPU: after the first steps, they are replayed from a CUDA graph.

A recording belongs to a model, the addresses of its weights, the shapes of its tensors and the options of the
strategy. It sees weights that change in place; for weights that are replaced, a new one is made. The number
of sentences is rounded up, so that few shapes occur, and the oldest recordings are dropped. All recordings of
a device share one pool of memory, so only one thread searches at a time.
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor, nn

from throughtime.errors import ThroughtimeWarning, first_line
from throughtime.gpu.fixed_search import (
    FixedRows,
    FixedSearch,
    FixedStrategy,
    SearchStart,
    stands_for,
)
from throughtime.gpu.fixed_strategies import fixed_form, recording_key
from throughtime.gpu.packing import Packed
from throughtime.gpu.recording import FAILURES
from throughtime.gpu.search_history import read_results
from throughtime.gpu.search_store import RECORDINGS, describe_shapes, describe_weights, walk
from throughtime.interrupt import check_interrupt
from throughtime.search.constraints import BarredTokens
from throughtime.search.generate import Constraint, Finished, StepModel, Strategy

MAX_HISTORY = 2**22
"""Rows times steps; longer searches use the plain loop."""
STEPS_AT_ONCE = 4
"""Steps that are replayed together, up to the length of recent searches: after each replay there is a gap."""
STEPS_BEFORE = 2
"""Steps that run before one is recorded: libraries allocate memory and load kernels in their first calls."""
LENGTH_STEP = 64


def suits(
    model: StepModel, strategy: Strategy, constraints: Sequence[Constraint], sentences: int, steps: int
) -> bool:
    """Return whether a search can run from a recording; if not, it uses the plain loop."""
    # To ask whether a model or a strategy has a protocol would take as long as all the rest.
    modules: Sequence[nn.Module] = getattr(model, "recorded_modules", ())
    if not modules or recording_key(strategy) is None:
        return False
    if len(_select(constraints)) < len(constraints):
        return False
    weight = next((weight for module in modules for weight in module.parameters()), None)
    if weight is None or weight.device.type != "cuda" or torch.version.hip is not None:
        return False
    each: int = getattr(strategy, "num_beams", getattr(strategy, "num_return_sequences", 1))
    return (
        round_up_sentences(sentences) * each * steps <= MAX_HISTORY
        and not torch.is_autocast_enabled("cuda")
        and not torch.cuda.is_current_stream_capturing()
        and all(map(may_record, modules))
    )


def _select(constraints: Sequence[Constraint]) -> list[BarredTokens]:
    """Return the constraints that a recorded step may contain."""
    return [constraint for constraint in constraints if isinstance(constraint, BarredTokens)]


def may_record(module: nn.Module) -> bool:
    """Return whether a module has no hooks, which must be called each time, and draws no random numbers."""
    return not any(
        module._forward_hooks or module._forward_pre_hooks or (module.training and not module._modules)
        for module in walk([module])
    )


def round_up_sentences(count: int) -> int:
    """Return the number of sentences of a recording: a power of two, or three quarters of one.

    >>> [round_up_sentences(count) for count in (1, 3, 9, 40, 64, 100)]
    [1, 4, 12, 48, 64, 128]
    """
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 8 and count <= power * 3 // 4 else power


class RecordedStart:
    """Reads prompts of one shape with a model: directly the first time, then from a CUDA graph."""

    def __init__(self, source: Tensor, lengths: Tensor, device: torch.device) -> None:
        self._packed = Packed((source, lengths), device)
        self.device, self.failed, self._called = device, device.type != "cuda", False
        self.replay: Callable[[], None] | None = None
        self._started: list[SearchStart] = []

    def __call__(self, model: StepModel, source: Tensor, lengths: Tensor) -> SearchStart:
        """Read the prompts; the next call overwrites what this one returns."""
        if self.failed:
            return model.read(source, lengths)
        self._packed.hold((source, lengths))
        if not self._called:
            self._called = True
            self._packed.send()
            return model.read(*self._packed.parts)
        if self.replay is None:
            packed, reference, started = self._packed, weakref.ref(model), self._started

            def read() -> None:
                source_model = reference()  # a recording must not keep its model alive
                assert source_model is not None
                packed.send()
                started.append(source_model.read(*packed.parts))

            try:
                self.replay = RECORDINGS.record(read, self.device)
            except FAILURES:  # such as an encoder whose kernels need the lengths on the host
                self.failed = True
                return model.read(source, lengths)
        self.replay()
        return self._started[-1]


class RecordedSearch:
    """A search whose step is replayed from a CUDA graph, once it has been recorded."""

    def __init__(self, search: FixedSearch) -> None:
        self.search, self.device = search, search.last.device
        self.replay: Callable[[], None] | None = None
        self.replay_several: Callable[[], None] | None = None
        self.failed = not search.last.is_cuda
        self._events = deque(torch.cuda.Event() for _ in range(2 if search.last.is_cuda else 0))
        self._needed: deque[int] = deque(maxlen=4)  # steps of recent searches

    def run(self, model: StepModel, most: int) -> int:
        """Run all steps, or until no row lives; return the number of steps up to then, all of them done."""
        stream = torch.cuda.current_stream(self.device) if self._events else None
        step = done = lived = 0
        while step < most:
            check_interrupt()
            before, step = step, step + self._advance(model, step, most)
            done = step
            if self._events:  # what a GPU reports is read one launch later, so that it never waits
                self._events.rotate()
                self._events[0].record(stream)
                self._events[1].synchronize()
                done = before
            reached = int(self.search.reached)
            lived = max(lived, reached)
            if reached < done:
                break
        else:
            if self._events:
                self._events[0].synchronize()
            done = lived = most
        self._needed.append(lived + 1)
        return done

    def _advance(self, model: StepModel, step: int, most: int) -> int:
        """Run or replay one step, or several; return their number."""
        if self.replay is None and not self.failed and step >= STEPS_BEFORE:
            self.replay = self._record(model, 1)
        if self.replay is None:
            self.search.step(model)
            return 1
        if step + STEPS_AT_ONCE <= min(most, *self._needed or [0]):
            if self.replay_several is None and not self.failed:
                self.replay_several = self._record(model, STEPS_AT_ONCE)
            if self.replay_several is not None:
                self.replay_several()
                return STEPS_AT_ONCE
        self.replay()
        return 1

    def _record(self, model: StepModel, steps: int) -> Callable[[], None] | None:
        """Record some steps; recording runs nothing."""
        search, reference = self.search, weakref.ref(model)

        def advance() -> None:
            source_model = reference()  # a recording must not keep its model alive
            assert source_model is not None
            for _ in range(steps):
                search.step(source_model)

        try:
            return RECORDINGS.record(advance, self.device)
        except FAILURES as error:
            self.failed = True
            problem = f"a step of this search cannot be recorded in a CUDA graph: {first_line(error)}"
            warnings.warn(problem, ThroughtimeWarning, stacklevel=2)
            return None


def replay_search(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    max_new_tokens: int,
    constraints: Sequence[Constraint],
) -> list[list[Finished]] | None:
    """Run a search from a recording where that is possible; see `throughtime.accelerate.run_search`."""
    if not suits(model, strategy, constraints, len(prompts), max_new_tokens):
        return None
    return search_fixed(model, prompts, strategy, max_new_tokens=max_new_tokens, constraints=constraints)


@torch.inference_mode()
def search_fixed(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    constraints: Sequence[Constraint] = (),
) -> list[list[Finished]]:
    """Like `generate`, in fixed shapes, with a strategy that has a fixed form; on a GPU from a recording."""
    count = round_up_sentences(len(prompts))
    most = min(max_new_tokens, getattr(strategy, "max_length", None) or max_new_tokens)
    steps = -(-most // LENGTH_STEP) * LENGTH_STEP
    with RECORDINGS:
        started = _start(model, [*prompts, *[prompts[-1]] * (count - len(prompts))])
        form = fixed_form(strategy)
        assert form is not None
        rows = form.begin(count, steps)  # while a GPU reads the prompts
        real = len(rows.sentence) // count * len(prompts)
        rows.live[real:], rows.log_prob[real:] = False, -torch.inf
        recording = _find_recording(model, strategy, form, constraints, rows, started, steps)
        recording.search.begin(rows, started)
        try:
            run = recording.run(model, most)
            return read_results(recording.search, strategy, rows.live.numpy(), len(prompts), run)
        finally:
            if started[0].is_cuda:
                torch.cuda.current_stream(started[0].device).synchronize()


def _start(model: StepModel, prompts: Sequence[Sequence[int]]) -> SearchStart:
    """Return what `model.start` returns, from a recording where there is one."""
    modules: Sequence[nn.Module] = getattr(model, "reading_modules", ())
    if not modules or not stands_for(model, "prepare", "start"):
        return model.start(prompts)
    source, lengths = model.prepare(prompts)
    device = next((weight.device for module in modules for weight in module.parameters()), source.device)
    if device.type != "cuda" or not all(map(may_record, modules)):
        return model.read(source, lengths)
    key = ("start", describe_shapes(source, lengths), describe_weights(modules), device)
    start = RECORDINGS.find(model, key)
    if start is None:
        start = RecordedStart(source, lengths, device)
        RECORDINGS.keep(model, key, start)
    assert isinstance(start, RecordedStart)
    return start(model, source, lengths)


def _find_recording(
    model: StepModel,
    strategy: Strategy,
    form: FixedStrategy,
    constraints: Sequence[Constraint],
    rows: FixedRows,
    started: SearchStart,
    steps: int,
) -> RecordedSearch:
    """Return the recording for a search that begins so; a new one if there is none."""
    last, state, memory = started
    key: tuple[Hashable, ...] = ()
    modules: Sequence[nn.Module] = getattr(model, "recorded_modules", ())
    if last.is_cuda and modules:
        shapes = describe_shapes(*rows, last, *state, *memory.kept)
        options = recording_key(strategy), tuple(constraints), steps
        key = ("search", shapes, describe_weights(modules), options, last.device)
        recorded = RECORDINGS.find(model, key)
        if isinstance(recorded, RecordedSearch):
            return recorded
    barred = _select(constraints)
    recording = RecordedSearch(FixedSearch(form, barred, strategy.end_id, rows, started, steps))
    if key:
        RECORDINGS.keep(model, key, recording)
    return recording
