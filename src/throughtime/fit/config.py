"""The settings of the trainer, with their types, defaults and descriptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Config, Effect, architecture, one_of, only_with
from throughtime.registry import Registry
from throughtime.runtime.keywords import MAX_SEED

SCHEDULES = Registry[Callable[..., float]](
    "schedule",
    "throughtime.schedules",
    {
        "constant": "throughtime.fit.schedules:constant",
        "step": "throughtime.fit.schedules:step",
        "plateau": "throughtime.fit.schedules:plateau",
        "cosine": "throughtime.fit.schedules:cosine",
        "one-cycle": "throughtime.fit.schedules:one_cycle",
    },
)
"""From the settings and the `Standing` of a training to the factor on `lr`."""

MIN_BATCHES, MIN_UPDATES = 8, 200
"""Few data are read in smaller batches, and more often: as far as they allow, this is the minimum of batches
in an epoch and of updates in all."""

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
OutputBias = Annotated[
    Literal["frequencies", "zeros"],
    Field(description="initial bias of the softmax: the tokens' log frequencies, or zeros"),
]
Epochs = Annotated[
    Annotated[int, Field(ge=1)] | None,
    Field(description="passes over the training data; null: as many as minutes allow, or as suit the data"),
]
BatchSize = Annotated[int, Field(ge=1, description="number of rows in a batch, over all processes")]
LearningRate = Annotated[float, Field(gt=0, description="learning rate; `--find-lr` suggests one")]
Schedule = Annotated[
    str,
    one_of("throughtime.fit.config:SCHEDULES"),
    Field(description="constant, step, plateau, cosine or one-cycle"),
]
Precision = Annotated[
    Literal["auto", "float32", "tf32", "bf16"],
    Field(
        description="precision of products: float32, tf32 (GPU), bf16, or auto: bf16 if the hardware has it; "
        "weights and sums stay float32"
    ),
]


class TrainingConfig(Config):
    """The settings of the trainer; a task adds its own."""

    EPOCHS: ClassVar[int] = 20
    """Number of epochs if neither epochs nor minutes are given."""
    REASONS: ClassVar[dict[str, str]] = {}
    """Why a setting depends on the time for training, for those that `settings_for` chooses."""
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        only_with("momentum", "optimizer", "sgd", "nt-asgd"),
        only_with("betas", "optimizer", "adam", "adamw"),
        only_with("nonmono", "optimizer", "nt-asgd"),
        only_with("decay", "schedule", "step", "plateau"),
        only_with("decay_after", "schedule", "step"),
        only_with("decay_every", "schedule", "step"),
        only_with("plateau_patience", "schedule", "plateau"),
        only_with("final_lr", "schedule", "cosine", "one-cycle"),
        only_with("rise", "schedule", "one-cycle"),
        Effect(
            "warmup_steps",
            lambda config: config.schedule != "one-cycle",
            "with schedule=one-cycle, which rises by itself; set rise or leave it out",
        ),
        Effect(
            "average",
            lambda config: config.optimizer != "nt-asgd",
            "with optimizer=nt-asgd, which averages by itself; leave it out",
        ),
        only_with("ema_decay", "average", "ema"),
    )

    network: str | None = architecture(
        None, description="name of a network that another package registers; null: the task's own"
    )
    seed: int = Field(
        0,
        ge=0,
        le=MAX_SEED,
        description="seed of all random numbers; on a CPU the same seed gives the same weights",
    )
    epochs: Epochs = None
    validate_every: int = Field(1, ge=1, description="number of epochs between validations")
    minutes: Positive | None = Field(
        None, description="train for this number of minutes; with epochs, stop after it at the latest"
    )
    batch_size: BatchSize = 32
    accumulate: int = Field(
        1, ge=1, description="number of batches whose gradients are summed for one update"
    )

    optimizer: Literal["sgd", "adam", "adamw", "nt-asgd"] = Field(
        "adamw", description="sgd, adam, adamw, or nt-asgd: sgd that averages weights once validation stalls"
    )
    lr: LearningRate = 2e-3
    momentum: Share = Field(0.0, description="momentum of sgd and nt-asgd")
    betas: tuple[Share, Share] = Field((0.9, 0.999), description="decay rates of adam and adamw")
    weight_decay: float = Field(
        0.0, ge=0, description="weight decay: decoupled with adamw, otherwise added to the gradient"
    )
    clip: Positive | None = Field(1.0, description="maximum global norm of the gradient; null: do not clip")

    schedule: Schedule = "constant"
    warmup_steps: int = Field(
        0, ge=0, description="number of updates in which the rate first rises from 0; not for one-cycle"
    )
    decay: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="step, plateau: the factor of each decay"
    )
    decay_after: int = Field(1, ge=0, description="step: epochs before the first decay")
    decay_every: int = Field(1, ge=1, description="step: epochs between decays")
    plateau_patience: int = Field(0, ge=0, description="plateau: epochs without improvement to tolerate")
    final_lr: Share | None = Field(
        None, description="cosine, one-cycle: the last rate as a share of lr; null: 0, one-cycle 0.0001"
    )
    rise: Share = Field(0.3, description="one-cycle: the share of all updates in which the rate rises")

    average: Literal["none", "ema"] = Field(
        "none", description="none, or ema: validate and save an exponential average of the weights"
    )
    ema_decay: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.999, description="ema: average over the last 1 / (1 - ema_decay) updates, at most a tenth of all"
    )
    nonmono: int = Field(5, ge=1, description="nt-asgd: epochs without improvement before averaging begins")

    early_stopping: int | None = Field(
        None,
        ge=1,
        description="stop after this number of epochs without improvement; null: never, but after a third of "
        "a run that minutes limit, and after 20 epochs of a forecaster with neither epochs nor minutes",
    )
    precision: Precision = "float32"
    device: str = Field("auto", description="device to train on: auto, cpu, cuda, cuda:1, ...")
    capture: bool = Field(True, description="on a GPU, replay updates from CUDA graphs")

    checkpoint_every: int | None = Field(
        None, ge=1, description="updates between checkpoints, besides those at the end of an epoch"
    )
    checkpoint_minutes: Positive | None = Field(
        5.0, description="minutes between such checkpoints, fewer in a short run with `minutes`; null: none"
    )
    keep: int = Field(2, ge=2, description="number of the latest checkpoints to keep")
    report_every: int = Field(50, ge=1, description="updates between reports of the loss and the speed")

    @property
    def num_epochs(self) -> int | None:
        """The number of epochs; None if the time determines it."""
        return self.epochs or (self.EPOCHS if self.minutes is None else None)

    def suit_few(self, rows: int, given: Collection[str]) -> dict[str, Any]:
        """The settings that suit few rows, of those not given: smaller batches, and more epochs.

        >>> TrainingConfig().suit_few(20, {}), TrainingConfig().suit_few(256, {})
        ({'batch_size': 2}, {'epochs': 25})
        """
        size, epochs = self.batch_size, self.num_epochs
        if not {"batch_size", "max_tokens", "accumulate"} & set(given):
            size = max(1, min(size, rows // MIN_BATCHES))
        chosen = {"batch_size": size} if size < self.batch_size else {}
        updates = max(1, math.ceil(rows / (size * self.accumulate)))
        if epochs is not None and "epochs" not in given and epochs * updates < MIN_UPDATES:
            chosen["epochs"] = math.ceil(MIN_UPDATES / updates)
        return chosen

    def settings_on(self, device: str) -> dict[str, Any]:
        """The settings that suit a type of device, such as cuda, and many epochs, of those not given."""
        return {}

    def batches_for(self, updates: float) -> dict[str, Any]:
        """The batches that suit a training on a CPU with time for this number of updates, if not given.

        There, half as large batches take about half as long; a GPU has no use for them.
        """
        return {}

    def settings_for(self, passes: float) -> dict[str, Any]:
        """The settings that suit a training with time for this number of epochs, of those not given."""
        return {}
