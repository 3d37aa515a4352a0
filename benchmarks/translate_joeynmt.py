"""JoeyNMT's side of translate_cpu: its own training loop and its own search, told when to go on.

Runs in JoeyNMT's environment and imports nothing of ours: `python -m benchmarks.translate_joeynmt CONFIG`,
where CONFIG is JoeyNMT's configuration as JSON. Orders come as lines of JSON, answers go back likewise.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO


def main() -> None:
    # The answers have a channel of their own: whatever else is printed goes where messages go.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    import numpy as np
    import torch
    from joeynmt.config import parse_global_args
    from joeynmt.prediction import predict, prepare
    from joeynmt.training import TrainManager

    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    args = parse_global_args(config, mode="train")
    args.model_dir.mkdir(parents=True, exist_ok=True)
    model, train_data, valid_data, _ = prepare(args, rank=0, mode="train")

    class Told(TrainManager):
        """Before an update it asks whether it may."""

        def __init__(self, orders: TextIO) -> None:
            super().__init__(
                rank=0,
                model=model,
                model_dir=args.model_dir,
                device=args.device,
                autocast=args.autocast,
                seed=args.seed,
                train_args=args.train,
                dev_args=args.test,
            )
            self.orders, self.left, self.tokens, self.began, self.worked = orders, 0, 0, 0.0, 0.0

        def _train_step(self, batch: Any) -> Any:
            if not self.left and self.began:
                self.answer({**self.passed(), "tokens": self.tokens})
            while not self.left:
                self.obey(json.loads(next(self.orders, '{"do": "end"}')))
            self.left, self.tokens = self.left - 1, self.tokens + batch.ntokens
            return super()._train_step(batch)

        def obey(self, order: dict[str, Any]) -> None:
            if order["do"] == "end":
                raise SystemExit
            if order["do"] == "train":
                self.left, self.tokens = order["updates"], 0
                self.start_clock()
            if order["do"] == "read":
                weights = np.load(order["path"])
                model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights.files})
                self.answer({"parameters": sum(weight.numel() for weight in model.parameters())})
            if order["do"] == "judge":
                self.answer({"loss": self.predicted(True, return_prob="ref")[0]["loss"]})
            if order["do"] == "decode":
                self.start_clock()
                _, _, sentences, *_ = self.predicted(False, beam_size=order["beams"])
                self.answer({**self.passed(), "sentences": sentences})

        def start_clock(self) -> None:
            self.began, self.worked = time.perf_counter(), time.process_time()

        def passed(self) -> dict[str, float]:
            """Seconds since then, and seconds of the processor."""
            return {"seconds": time.perf_counter() - self.began, "cpu": time.process_time() - self.worked}

        def predicted(self, judge: bool, **asked: Any) -> Any:
            """Its translations of the validation sentences, or the mean loss of their target tokens."""
            return predict(
                model,
                valid_data,
                args.device,
                n_gpu=0,
                compute_loss=judge,
                normalization="tokens",
                args=self.dev_cfg._replace(**asked),
                autocast=args.autocast,
            )

        def answer(self, values: dict[str, Any]) -> None:
            print(json.dumps(values), file=answers, flush=True)
            self.began = 0.0

    Told(sys.stdin).train_and_validate(train_data=train_data, valid_data=valid_data)


if __name__ == "__main__":
    main()
