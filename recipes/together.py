"""Translators that were trained alike from different beginnings, as one: the mean of their probabilities."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from recipes.measure import command
from throughtime.config import Config, build_config


class Together(Config):
    """Trained translators with one vocabulary, and how they search."""

    runs: tuple[str, ...] = Field(min_length=2)
    data: str
    length_penalty: float = 0.75


def words(asked: Together, split: str) -> list[str]:
    """What stands after `throughtime evaluate`."""
    first, *others = asked.runs
    joined = [word for other in others for word in ("--with", other)]
    alpha = str(asked.length_penalty)
    return [first, *joined, "--data", asked.data, "--split", split, "--length-penalty", alpha]


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """BLEU on the test split, with chrF, and both on the validation split."""
    asked = build_config(Together, settings, "together")
    test, valid = (command("evaluate", *words(asked, split)) for split in ("test", "valid"))
    also = {"chrF": test["chrf"], "valid": valid["bleu"], "valid chrF": valid["chrf"]}
    return {"value": test["bleu"], "also": also, "signature": test["signature"]}
