"""Errors belong to the layer that raises them: the library names parameters, not options."""

from __future__ import annotations

import pytest

from throughtime.cli.evaluate import evaluate
from throughtime.cli.output import name_options
from throughtime.cli.train import train_app
from throughtime.errors import InputError


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("lr", "--lr"),
        ("hidden_size", "--hidden-size"),
        ("clip", "--set clip"),
        ("set", "--set"),
        ("out", "--out"),
        ("settings", "settings"),
        ("pairs.tsv", "pairs.tsv"),
    ],
)
def test_train_names_options_and_settings(where, expected):
    (command,) = [one.callback for one in train_app.registered_commands if one.name == "translate"]
    error = name_options(InputError(where, "is wrong, unlike num_layers"), command)
    assert str(error) == f"{expected}: is wrong, unlike num_layers"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("others", "--with"),
        ("measures", "--measure"),
        ("num_beams", "--num-beams"),
        ("run", "run"),
        ("clip", "clip"),
    ],
)
def test_a_parameter_is_called_by_its_option(where, expected):
    assert str(name_options(InputError(where, "is wrong", line=3), evaluate)) == f"{expected}:3: is wrong"
