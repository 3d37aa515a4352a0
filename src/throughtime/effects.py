"""Which settings count only beside others. One that would change nothing is refused, not passed over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.config import Config


@dataclass(frozen=True)
class Effect:
    """The setting `key` changes something where `counts` holds of the whole configuration.

    `without` goes on from "has no effect": where that is so, and what to do. A setting's name in braces
    stands for its value.
    """

    key: str
    counts: Callable[[Any], bool]
    without: str


def only_with(key: str, other: str, *values: str) -> Effect:
    """The setting `key` counts where the setting `other` has one of these values."""
    choice = " or ".join(values)
    comma = "," if len(values) > 1 else ""
    return Effect(
        key,
        lambda config: getattr(config, other) in values,
        f"with {other}={{{other}}}; set {other}={choice}{comma} or leave it out",
    )


def refuse_idle(config: Config, given: Collection[str]) -> None:
    """Refuse a setting that somebody gave and that changes nothing; its default may be spelt out.

    >>> from throughtime.train.config import TrainingConfig
    >>> refuse_idle(TrainingConfig(ema_decay=0.9), ["ema_decay"])
    Traceback (most recent call last):
    throughtime.errors.InputError: ema_decay: has no effect with average=none; set average=ema or leave it out
    """
    for effect in config.EFFECTS:
        default = type(config).model_fields[effect.key].get_default(call_default_factory=True)
        if effect.key not in given or getattr(config, effect.key) == default or effect.counts(config):
            continue
        raise InputError(effect.key, f"has no effect {effect.without.format(**dict(config))}")
