"""Weights and answers that are not finite are refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.adversary.test_sizes import NETWORKS

import throughtime as tt
from throughtime.errors import InputError


def spoil(folder, value):
    """Set one weight to a value; returns the name of its tensor."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = max(tensors, key=lambda one: tensors[one].size)
    tensors[name].flat[-1] = value
    save_file(tensors, path)
    return name


@pytest.mark.parametrize("task", NETWORKS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_weight_is_infinite_or_no_number(task, value, model_folder):
    folder = model_folder(task)
    name = spoil(folder, value)
    with pytest.raises(InputError, match=rf"model\.safetensors: .*'{name}'.*finite"):
        tt.load(folder, device="cpu", trust_changed=True)
