"""What a person reads who wrote a wrong setting."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from tests.refusals import refuses

from throughtime.config import Config, build_config, check_config, one_of


class Kettle(Config):
    owner: str
    metal: Literal["copper", "iron", "steel"] = "iron"
    litres: float = Field(1.5, gt=0, le=20)
    cups: int = Field(4, ge=1)
    lid: float | None = Field(1.0, gt=0)
    spouts: tuple[float, float] = (0.5, 0.5)
    whistle: Literal["loud"] | int = "loud"
    boiling: bool = False
    shape: Annotated[str, one_of("throughtime.ngram.smoothing:SMOOTHINGS", "round")] = "round"
    marks: tuple[int, ...] = Field((1,), min_length=1, max_length=3)


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"metal": "coper"}, ("'coper'", "'copper'")),
        (
            {"shape": "laplas"},
            ("'laplas'", "'laplace'", "dirichlet", "kneser-ney"),
        ),
        ({"metal": 3}, ("3",)),
        ({"litres": 0}, ("0",)),
        ({"litres": 21.5}, ("21.5", "20")),
        ({"litres": float("nan")}, ("nan",)),
        ({"cups": 0}, ("0", "1")),
        ({"cups": 2.5}, ("2.5",)),
        ({"cups": None}, ("null",)),
        ({"lid": "no"}, ("'no'",)),
        ({"lid": -1}, ("-1", "0")),
        ({"spouts": [0.5]}, ("[0.5]", "1")),
        ({"spouts": [1, 2, 3]}, ("[1, 2, 3]", "2")),
        ({"spouts": [1, "x"]}, ("2", "'x'")),
        ({"spouts": 1}, ("1",)),
        ({"marks": []}, ("[]", "1")),
        ({"whistle": "lod"}, ("'lod'", "'loud'")),
        ({"boiling": "perhaps"}, ("'perhaps'",)),
        ({"owner": 7}, ("7",)),
        ({"litre": 2}, ("'litre'", "'litres'")),
        ({"owner": None, "cups": 1}, ("null",)),
    ],
)
def test_a_wrong_value_is_told_in_one_sentence(given: dict[str, Any], facts: tuple[str, ...]) -> None:
    with refuses("kettle.yaml", next(iter(given)), *facts):
        build_config(Kettle, {"owner": "Ann", **given}, "kettle.yaml")


def test_an_unknown_key_like_no_other_lists_those_there_are() -> None:
    with refuses("kettle.yaml", "'zzz'", "owner", "metal", "litres"):
        build_config(Kettle, {"owner": "Ann", "zzz": 1}, "kettle.yaml")


def test_a_missing_key_is_named_and_only_check_lets_it_pass() -> None:
    with refuses("kettle.yaml", "'owner'"):
        build_config(Kettle, {"cups": 2}, "kettle.yaml")
    check_config(Kettle, {"cups": 2}, "kettle.yaml")
    with refuses("kettle.yaml", "cups", "0"):
        check_config(Kettle, {"cups": 0}, "kettle.yaml")
    with refuses("kettle.yaml", "spouts", "[1]"):
        check_config(Kettle, {"spouts": [1]}, "kettle.yaml")
