"""Strategies by name: each declares its options, and errors name the option."""

from __future__ import annotations

from typing import Annotated

import pytest
from tests.refusals import refuses
from tests.search.tables import Pairs

from throughtime.search.generate import generate, moments
from throughtime.search.sampling import Greedy
from throughtime.search.strategies import STRATEGIES, build_strategy, strategy_options

END, CAP = 2, 5


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_built_by_name_with_its_defaults(name):
    strategy = build_strategy(name, END, max_length=CAP)
    assert all(generate(Pairs(2, 4, 1), [[0], [1]], strategy, max_new_tokens=CAP))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_option_has_a_help_and_accepts_its_default(name):
    for option in strategy_options(name).values():
        assert option.help
        assert option.kind in (int, float, bool, str)
        assert option.read(option.default) == option.default
        if option.default is not None:
            assert option.read(str(option.default)) == option.default


class Dim(Greedy):
    """A strategy of another package: greedy search, with an option of its own."""

    def __init__(self, end_id: int | None, *, shade: Annotated[str, "Which shade"] = "grey") -> None:
        super().__init__(end_id)
        self.shade = shade


def test_a_strategy_of_another_package_declares_its_options_alike(monkeypatch):
    monkeypatch.setitem(STRATEGIES._own, "dim", f"{__name__}:Dim")
    assert [(one.name, one.kind, one.help) for one in strategy_options("dim").values()] == [
        ("shade", str, "Which shade")
    ]
    assert build_strategy("dim", END, max_length=CAP, shade="blue").shade == "blue"


def test_options_reach_the_strategy():
    diverse = build_strategy("diverse", END, num_beams="4", groups=2, diversity_penalty=1)
    assert (diverse.num_beams, diverse.groups, diverse.penalty) == (4, 2, 1)
    model = Pairs(1, 4, 1)
    few = generate(model, [[0]], build_strategy("diverse", END, num_return_sequences=1), max_new_tokens=CAP)
    all_groups = generate(model, [[0]], build_strategy("diverse", END), max_new_tokens=CAP)
    assert few[0] == all_groups[0][:1]
    assert len(all_groups[0]) > 1


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("beem", {}, ("search strategy", "'beem'", "'beam'")),
        ("beam", {"groups": 2}, ("groups", "beam")),
        ("greedy", {"num_beams": 2}, ("num_beams", "greedy")),
        ("beam", {"num_beams": "many"}, ("num_beams", "'many'")),
        ("beam", {"num_beams": 2.5}, ("num_beams", "2.5")),
        ("beam", {"num_beams": True}, ("num_beams",)),
        ("beam", {"eager": "perhaps"}, ("eager", "'perhaps'")),
        ("diverse", {"num_beams": 4, "groups": 3}, ("groups", "3", "4")),
        ("exhaustive", {}, ("max_length", "1")),
    ],
)
def test_errors_name_the_option(name, options, facts):
    with refuses(*facts):
        build_strategy(name, END, **options)


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_of_a_strategy_that_streams_continue_themselves(name):
    strategy = build_strategy(name, END, max_length=CAP)
    if not getattr(strategy, "streams", False):
        return
    numbers = None
    for moment in moments(Pairs(9, 4, 1), [[n] for n in range(9)], strategy, max_new_tokens=CAP):
        rows = moment.rows.tolist()
        assert rows == sorted({*rows})
        numbers = rows if numbers is None else [numbers[row] for row in rows]
        assert moment.hypotheses.sentence.tolist() == numbers
