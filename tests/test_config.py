"""What a person reads who wrote a wrong setting."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from tests.refusals import refuses

from throughtime.config import Config, build_config, check_config, one_of
from throughtime.errors import InputError


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
    ("given", "sentence"),
    [
        ({"metal": "coper"}, "metal is 'coper': expected copper, iron or steel; did you mean 'copper'?"),
        (
            {"shape": "laplas"},
            "shape is 'laplas': expected round, relative-frequency, laplace, dirichlet or kneser-ney; "
            "did you mean 'laplace'?",
        ),
        ({"metal": 3}, "metal is 3: expected copper, iron or steel"),
        ({"litres": 0}, "litres is 0: expected more than 0"),
        ({"litres": 21.5}, "litres is 21.5: expected at most 20"),
        ({"litres": float("nan")}, "litres is nan: expected a finite number"),
        ({"cups": 0}, "cups is 0: expected at least 1"),
        ({"cups": 2.5}, "cups is 2.5: expected a whole number"),
        ({"cups": None}, "cups is null: expected a whole number"),
        ({"lid": "no"}, "lid is 'no': expected a number or null"),
        ({"lid": -1}, "lid is -1: expected more than 0 or null"),
        ({"spouts": [0.5]}, "spouts is [0.5]: expected more than 1 item"),
        ({"spouts": [1, 2, 3]}, "spouts is [1, 2, 3]: expected at most 2 items"),
        ({"spouts": [1, "x"]}, "item 2 of spouts is 'x': expected a number"),
        ({"spouts": 1}, "spouts is 1: expected a list"),
        ({"marks": []}, "marks is []: expected at least 1 item"),
        ({"whistle": "lod"}, "whistle is 'lod': expected loud or a whole number; did you mean 'loud'?"),
        ({"boiling": "perhaps"}, "boiling is 'perhaps': expected true or false"),
        ({"owner": 7}, "owner is 7: expected text"),
        ({"litre": 2}, "unknown key 'litre'; did you mean 'litres'?"),
        ({"owner": None, "cups": 1}, "owner is null: expected text"),
    ],
)
def test_a_wrong_value_is_told_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        build_config(Kettle, {"owner": "Ann", **given}, "kettle.yaml")
    assert str(caught.value) == f"kettle.yaml: {sentence}"


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
