"""Stopping a computation from outside: its caller says when it is no longer wanted, and its loops ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_unwanted: ContextVar[Callable[[], bool]] = ContextVar("unwanted", default=lambda: False)


class InterruptError(Exception):
    """Raised inside a computation whose result nobody waits for any more."""


@contextmanager
def interruptible(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Stop what runs inside, in this thread, with an `InterruptError` once `unwanted()` is true.

    >>> with interruptible(lambda: True):
    ...     check_interrupt()
    Traceback (most recent call last):
    throughtime.interrupt.InterruptError
    """
    token = _unwanted.set(unwanted)
    try:
        yield
    finally:
        _unwanted.reset(token)


def check_interrupt() -> None:
    """Raise an `InterruptError` if the result is no longer wanted; for loops to call at each round."""
    if _unwanted.get()():
        raise InterruptError
