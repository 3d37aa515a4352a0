"""Devices by name, and bf16 beside float32."""

from __future__ import annotations

import json

import pytest
import torch
from tests.refusals import refuses

from throughtime.layers.devices import choose_device, matmul_precision


def test_devices_by_name():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "meta"):
        with refuses("device", f"'{name}'", "auto", "cpu", "cuda", "cuda:1"):
            choose_device(name)
    with refuses("device", "'cuda:99'"):
        choose_device("cuda:99")


def test_words_rule_both_kinds_of_products():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    for precision in ("float32", "tf32", "bf16"):
        with matmul_precision(precision):
            allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
            assert allowed == (precision != "float32",) * 2
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_bf16_trains_as_float32_does(cell, language_task, trainer_of):
    """Within 5 % of its loss after two epochs; weights, averages and all sums stay float32."""
    losses = {}
    for precision in ("float32", "bf16"):
        task = language_task(precision=precision, cell=cell, epochs=2, lr=0.01, average="ema")
        trainer = trainer_of(task)
        trainer.fit()
        written = (trainer.run / "metrics.jsonl").read_text().splitlines()
        losses[precision] = [json.loads(line)["loss"] for line in written if '"train"' in line]
        assert all(weight.dtype == torch.float32 for weight in task.model.parameters())
        saved = trainer.checkpoints.latest().tensors
        assert {part.dtype for part in saved.values()} <= {torch.float32, torch.int64}
    assert losses["bf16"] == pytest.approx(losses["float32"], rel=0.05)
    assert losses["bf16"] != losses["float32"]
    assert losses["bf16"][-1] < losses["bf16"][0]
