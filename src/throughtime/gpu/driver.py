"""Compile a kernel with NVRTC and launch it through the driver, both of which come with torch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning, first_line
from throughtime.files import cache_entry, whole_file, writable_cache

FOLDER = Path(__file__).parent
MIN_CAPABILITY = (8, 0)
"""The lowest compute capability that has the matrix instructions used here."""


Arguments = ctypes.Structure | ctypes.Array[ctypes.c_longlong]


class LaunchKernel(Protocol):
    """A loaded kernel."""

    def __call__(self, blocks: int, arguments: Arguments, stream: int | None = None) -> None:
        """Launch this number of blocks with these arguments, on the current stream or on this one."""

    def bind(self, blocks: int, arguments: Arguments) -> Callable[[], None]:
        """Return a function that launches these blocks on the current stream, in less time.

        The caller keeps the arguments alive, and may write into them between launches.
        """
        ...


@functools.cache
def unavailable(device: int) -> str | None:
    """Return why kernels cannot be compiled and run on this GPU, or None if they can."""
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    if torch.cuda.get_device_capability(device) < MIN_CAPABILITY:
        return f"the GPU is older than compute capability {MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]}"
    try:
        _nvrtc(), _driver()
    except OSError as error:
        return f"the CUDA compiler or driver cannot be loaded ({error})"
    return None


@functools.cache
def limits(device: int) -> tuple[int, int]:
    """Return the number of multiprocessors of the GPU, and the bytes of shared memory a block may have."""
    multiprocessors, shared = read_attributes(device, 16, 97)  # as the driver numbers them
    return multiprocessors, shared


def read_attributes(device: int, *numbers: int) -> list[int]:
    """Return the attributes of a GPU with these numbers of the driver (`CUdevice_attribute`)."""
    torch.cuda.init()
    handle, value, values = ctypes.c_int(), ctypes.c_int(), []
    _check(_driver().cuDeviceGet(ctypes.byref(handle), device))
    for number in numbers:
        _check(_driver().cuDeviceGetAttribute(ctypes.byref(value), number, handle))
        values.append(value.value)
    return values


def find_version() -> str:
    """Return the version of the interface of the driver."""
    value = ctypes.c_int()
    _check(_driver().cuDriverGetVersion(ctypes.byref(value)))
    return str(value.value)


def build(
    name: str, files: tuple[str, ...], constants: Mapping[str, int], device: int, *, together: bool = False
) -> LaunchKernel:
    """Compile the kernel `name` from these files with these constants, and load it on a GPU.

    `together` says that its blocks wait for each other: the driver then runs all of them at once or refuses,
    so that no block waits for one that never starts.
    """
    return _build_once(name, files, tuple(sorted(constants.items())), device, together)


def try_build(build: Callable[[], object], consequence: str) -> bool:
    """Try to compile and load the kernels of a function; if that fails, warn: the consequence, the reason.

    Callers cache the answer, so that the warning is given once.
    """
    try:
        build()
    except ThroughtimeError as error:
        warnings.warn(f"{consequence}: {first_line(error)}", ThroughtimeWarning, stacklevel=3)
        return False
    return True


@functools.cache
def _build_once(
    name: str, files: tuple[str, ...], constants: tuple[tuple[str, int], ...], device: int, together: bool
) -> LaunchKernel:
    values = dict(constants)
    with torch.cuda.device(device):
        _enter(device)
        image = machine_code(text(files), values, torch.cuda.get_device_capability(device))
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(module), image))
        _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        shared = values.get("SHARED_BYTES", 0)
        most_shared_memory = 8  # the driver's number of this attribute
        _check(_driver().cuFuncSetAttribute(function, most_shared_memory, shared))
    return _LoadedKernel(function, 32 * values["WARPS"], shared, device, together)


class _LoadedKernel:
    """A loaded kernel. Its own time is a large part of a short launch: what is the same is converted once."""

    def __init__(
        self, function: ctypes.c_void_p, threads: int, shared: int, device: int, together: bool
    ) -> None:
        start = _driver().cuLaunchCooperativeKernel if together else _driver().cuLaunchKernel
        number, pointer = ctypes.c_uint, ctypes.c_void_p
        self._start, self._device, self._function = start, device, function
        self._extra = () if together else (None,)
        start.argtypes = (pointer, *[number] * 7, pointer, pointer, *[pointer] * len(self._extra))
        one = number(1)
        self._shape = one, one, number(threads), one, one, number(shared)
        self._pointers = pointer * 1

    def __call__(self, blocks: int, arguments: Arguments, stream: int | None = None) -> None:
        addresses = self._pointers(ctypes.addressof(arguments))
        self._launch((self._function, blocks, *self._shape), addresses, stream)

    def bind(self, blocks: int, arguments: Arguments) -> Callable[[], None]:
        front = self._function, ctypes.c_uint(blocks), *self._shape
        return functools.partial(self._launch, front, self._pointers(ctypes.addressof(arguments)))

    def _launch(self, front: tuple[Any, ...], addresses: Any, stream: int | None = None) -> None:
        device = self._device
        if torch._C._cuda_getDevice() != device:
            with torch.cuda.device(device):
                self._launch(front, addresses, stream)
            return
        if not hasattr(_thread, "entered"):
            _enter(device)
        # torch.cuda.current_stream would build an object at each launch for the same number.
        stream = torch._C._cuda_getCurrentRawStream(device) if stream is None else stream
        if code := self._start(*front, stream, addresses, *self._extra):
            _check(code)


def open_stream(device: int) -> int:
    """Return a new stream. torch deals its own out again and again, so that two users may share one."""
    stream, beside_the_default_stream = ctypes.c_void_p(), 1
    with torch.cuda.device(device):
        _enter(device)
        _check(_driver().cuStreamCreate(ctypes.byref(stream), beside_the_default_stream))
    assert stream.value is not None
    return stream.value


_thread = threading.local()
"""Whether this thread has entered a context."""


def _enter(device: int) -> None:
    """Make the context of the GPU current in this thread; a backward pass runs in another thread."""
    context, handle = ctypes.c_void_p(), ctypes.c_int()
    _check(_driver().cuCtxGetCurrent(ctypes.byref(context)))
    if not context.value:
        _check(_driver().cuDeviceGet(ctypes.byref(handle), device))
        _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
        _check(_driver().cuCtxSetCurrent(context))
    _thread.entered = True


def text(files: tuple[str, ...]) -> str:
    """Return the concatenated text of these files."""
    return "\n".join((FOLDER / file).read_text(encoding="utf-8") for file in files)


def machine_code(source: str, constants: Mapping[str, int], capability: tuple[int, int]) -> bytes:
    """Return the compiled source, from the cache if an earlier run has stored it."""
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17", "-default-device"]
    options += [f"-D{name}={value}" for name, value in sorted(constants.items())]
    version = (ctypes.c_int * 2)()
    _nvrtc().nvrtcVersion(ctypes.byref(version, 0), ctypes.byref(version, 4))
    key = hashlib.sha256("\n".join([source, *options, f"{version[0]}.{version[1]}"]).encode()).hexdigest()
    return load_or_build(key, lambda: _compile(source, options))


def _compile(source: str, options: list[str]) -> bytes:
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), words)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise ThroughtimeError(f"a GPU kernel did not compile: {log.value.decode(errors='replace')}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, image)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image.raw


def _check(code: int) -> None:
    if code:
        message = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(message))
        reason = (message.value or b"unknown error").decode()
        raise ThroughtimeError(f"the CUDA driver failed: {reason} (error {code})")


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


@functools.cache
def _nvrtc() -> Any:
    """Load the NVRTC that comes with torch, in its own folder or in a package beside it."""
    major = (torch.version.cuda or "0").split(".")[0]
    name = f"libnvrtc.so.{major}"
    packages = Path(torch.__file__).parents[1]
    places = [packages / "torch" / "lib" / name, *sorted(packages.glob(f"nvidia/*/lib/{name}"))]
    for place in (*places, Path(name)):
        if place.exists() or place == Path(name):
            return ctypes.CDLL(str(place))
    raise OSError(name)


_DIGEST_SIZE = hashlib.sha256().digest_size


def load_or_build(key: str, build: Callable[[], bytes]) -> bytes:
    """Return the bytes stored under `key`; without them call `build` and store its result.

    Any number of processes may do this at once. Each writes a temporary file and renames it, so the file of a
    key is always a whole one. It begins with the checksum of its content: a file that is truncated or damaged
    is built again.
    """
    name = f"kernels/{key}.kernel"
    try:
        stored = cache_entry(name).read_bytes()
    except OSError:
        stored = b""
    digest, content = stored[:_DIGEST_SIZE], stored[_DIGEST_SIZE:]
    if content and hashlib.sha256(content).digest() == digest:
        return content
    content = build()
    with contextlib.suppress(OSError, InputError), whole_file(writable_cache() / name, "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
    return content
