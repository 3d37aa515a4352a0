"""A GPU is used where there is one, and nobody has to ask for it; shown on machines without one too."""

from __future__ import annotations

import pytest
import torch
import typer.main
from tests.tiny import tiny_data, training
from torch import nn

import throughtime as tt
from throughtime.cli.main import app
from throughtime.layers.devices import choose_device, seed_generators
from throughtime.tasks import TASKS


@pytest.fixture
def two_gpus(monkeypatch):
    """torch says that there are two."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


class MovedError(Exception):
    """Where a model was to go, on a machine that cannot take it there."""


def test_auto_is_the_gpu_where_torch_says_there_is_one(two_gpus, monkeypatch):  # R105
    assert choose_device("auto") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("auto") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")


def test_nobody_has_to_ask_for_it():  # R105
    for name in TASKS.keys() - {"ngram"}:
        assert TASKS[name].part("config").model_fields["device"].default == "auto", name

    def defaults(command, path):
        for name, one in getattr(command, "commands", {}).items():
            yield from defaults(one, f"{path} {name}")
        yield from ((path, option.default) for option in command.params if option.name == "device")

    found = dict(defaults(typer.main.get_command(app), "throughtime"))
    assert {f"throughtime {name}" for name in ("evaluate", "translate", "generate", "forecast")} <= set(found)
    trains = {path: default for path, default in found.items() if path.startswith("throughtime train ")}
    assert set(trains.values()) == {None}  # as the settings above say
    assert {default for path, default in found.items() if path not in trains} == {"auto"}, found


def test_models_are_trained_and_opened_there(throughtime, tmp_path, two_gpus, monkeypatch):  # R105
    data, out = tiny_data(tmp_path)["language"], tmp_path / "run"
    assert throughtime(*training("language", data, out, epochs=1)).code == 0  # with device=cpu

    def move(module, device):
        raise MovedError(device)

    monkeypatch.setattr(nn.Module, "to", move)
    with pytest.raises(MovedError) as moved:
        tt.load(out)
    assert moved.value.args == (torch.device("cuda", 0),)
    ran = throughtime(*training("language", data, tmp_path / "other", epochs=1, device="auto"))
    assert ran.code == 1
    assert "MovedError: cuda:0" in ran.err


@pytest.mark.parametrize("name", ["cpu", "mps"])
def test_the_generators_of_every_kind_of_device_are_seeded(name, monkeypatch):
    asked, seed = [], torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda number: asked.append(number) or seed(number))
    seed_generators(torch.device(name), 7)
    first = torch.rand(3)
    seed(7)
    assert torch.equal(torch.rand(3), first)
    assert asked == ([] if name == "cpu" else [7])
