"""Options that would have no effect beside others, which nobody gives on purpose."""

from __future__ import annotations

from throughtime.errors import InputError


def refuse(problem: str, **given: object) -> None:
    """Refuse those of these options that were given; one that was not is None.

    >>> refuse("goes with --beam; leave it out", layer=None, num_beams=5)
    Traceback (most recent call last):
    throughtime.errors.InputError: --num-beams: goes with --beam; leave it out
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}", problem)
