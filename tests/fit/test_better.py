"""A measure of which more is better, BLEU for one, decides as one of which less is."""

from __future__ import annotations

import torch

from throughtime.fit.config import TrainingConfig


def test_more_of_it_is_better_where_the_task_says_so(ramp, trainer_of):
    config = TrainingConfig(
        epochs=6, lr=0.3, batch_size=10, device="cpu", schedule="plateau", early_stopping=3
    )

    def run(turned):
        task = ramp(config)
        if turned:
            summarise = task.summarise
            task.measure, task.better = "fit", "more"
            task.summarise = lambda sums: {"fit": -summarise(sums)["mse"]}
        trainer = trainer_of(task, config)
        return trainer.fit(), trainer.saved, trainer.rate

    (plain, saved, rate), (turned, saved_turned, rate_turned) = run(False), run(True)
    assert 1 <= plain.best_epoch < plain.epochs  # so that the last is not the best by default
    assert turned.best["fit"] == -plain.best["mse"]
    assert (turned.best_epoch, turned.epochs, rate_turned) == (plain.best_epoch, plain.epochs, rate)
    assert len(saved) == len(saved_turned)
    for name, weight in saved[-1][1].items():
        assert torch.equal(weight, saved_turned[-1][1][name])
