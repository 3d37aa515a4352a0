"""The recordings of all searches: few of them, none of a model that is gone, one pool of memory."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from throughtime.gpu.recording import FAILURES, record

MAX_RECORDINGS = 24
"""Each keeps the tensors of a search."""

Key = tuple[Hashable, ...]


class RecordedWork(Protocol):
    """What is replayed from a CUDA graph, once it has been recorded."""

    device: torch.device
    replay: Callable[[], None] | None


class RecordingStore:
    """Keeps the newest recordings by model and key. A `with` block gives it to one thread at a time.

    All recordings of a device share one pool of memory, so only one search may run.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[Key, RecordedWork] = OrderedDict()
        self._watched: set[int] = set()  # models whose end drops their recordings
        self._gone: deque[int] = deque()  # models whose recordings are still to be dropped
        self._lock = threading.Lock()
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._pools: dict[torch.device, Any] = {}

    def __len__(self) -> int:
        """The number of recordings."""
        return len(self._found)

    def __enter__(self) -> Self:
        """Wait until no other thread searches."""
        self._lock.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        """Let other threads search."""
        self._drop_gone()
        self._lock.release()

    def list(self) -> list[RecordedWork]:
        """All recordings, the oldest first."""
        return [*self._found.values()]

    def find(self, model: object, key: Key) -> RecordedWork | None:
        """Return the recording of this model and key, if there is one."""
        full_key = (id(model), *key)
        if full_key in self._found:
            self._found.move_to_end(full_key)
        return self._found.get(full_key)

    def keep(self, model: object, key: Key, recording: RecordedWork) -> None:
        """Keep a recording as long as its model lives and few others are newer."""
        self._found[(id(model), *key)] = recording
        if id(model) not in self._watched:
            self._watched.add(id(model))
            weakref.finalize(model, self._forget, id(model))
        while len(self._found) > MAX_RECORDINGS:
            self._found.popitem(last=False)

    def record(self, work: Callable[[], None], device: torch.device) -> Callable[[], None]:
        """Record this work of a GPU, which draws no random numbers."""
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        stream = self._streams[device]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.device(device):
            try:
                return record(work, stream, self._find_pool(device))
            except FAILURES:
                del self._pools[device]  # torch records nothing more with the pool of one that failed
                raise

    def _find_pool(self, device: torch.device) -> Any:
        """Return the pool of the recordings of a device; torch gives one up with its last recording."""
        recordings = [recording for recording in self._found.values() if recording.device == device]
        if device not in self._pools or all(recording.replay is None for recording in recordings):
            self._pools[device] = torch.cuda.graph_pool_handle()
        return self._pools[device]

    def _forget(self, model: int) -> None:
        """Drop the recordings of a model that is gone: now, or after a search that runs at this moment.

        The garbage collector may call this anywhere, even in the middle of a search in this thread.
        """
        self._gone.append(model)
        if self._lock.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._lock.release()

    def _drop_gone(self) -> None:
        while self._gone:
            model = self._gone.popleft()
            self._watched.discard(model)
            for key in [key for key in self._found if key[0] == model]:
                del self._found[key]


RECORDINGS = RecordingStore()


def describe_shapes(*tensors: Tensor) -> Hashable:
    """Return the shapes and types of tensors."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def walk(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Return modules and all their parts; a part that is shared occurs more than once.

    `nn.Module.modules` gives names and looks for such parts, which takes as long as a step of a search.
    """
    modules_found = list(modules)
    for module in modules_found:  # the list grows meanwhile
        modules_found.extend(child for child in module._modules.values() if child is not None)
    return modules_found


def describe_weights(modules: Sequence[nn.Module]) -> Hashable:
    """Where the weights of modules are, and how products are computed."""
    weights = [
        weight
        for module in walk(modules)
        for weight in (*module._parameters.values(), *module._buffers.values())
        if weight is not None
    ]
    precision = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return tuple([(weight.data_ptr(), weight.shape, weight.dtype) for weight in weights]), precision
