"""What a trained model says about the records that it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.data.seen import Hashes, SeenCount, SeenRecords, hash_records, load_seen, save_seen
from throughtime.folder import ModelFolder
from throughtime.results import Evaluation

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.fit.processes import Processes


class KnowsRecords:
    """The part of a predictor that knows which records the model was trained on."""

    config: Any
    folder: ModelFolder | None

    @cached_property
    def seen(self) -> SeenRecords | None:
        """The records that the model was trained on, read from its folder when needed; None if unknown."""
        return load_seen(self.folder)

    def hash_split(self, dataset: Dataset, split: str) -> Iterator[Hashes]:
        """Yield the hashes of the records of a split as the model reads them, many at a time."""
        is_paired = dataset.kind in ("pairs", "cards")
        return hash_records(dataset.pairs(split) if is_paired else dataset.records(split))

    def add_seen(self, dataset: Dataset, out: Path | None = None, processes: Processes | None = None) -> None:
        """Add the training records of a data set to those of the model, and of the run that is in `out`.

        Of several processes, the first does it, which writes the folder.
        """
        if processes is not None and not processes.first:
            return
        before = self.seen or load_seen(None if out is None else ModelFolder(out)) or SeenRecords()
        self.seen = before.add(self.hash_split(dataset, getattr(self.config, "split", "train")))

    def save_seen(self, folder: ModelFolder) -> None:
        """Write what is known about the training records into the folder of the model."""
        save_seen(self.seen, folder)

    def count_seen(
        self, dataset: Dataset, split: str, others: Sequence[KnowsRecords] = ()
    ) -> SeenCount | None:
        """Count the records of a split that this model, or one of the others, was trained on.

        None if no model knows its records, as those of older versions.
        """
        known = [model.seen for model in (self, *others) if model.seen is not None]
        filters = tuple(bits for seen in known for bits in seen.filters)
        return SeenRecords(filters).count(self.hash_split(dataset, split)) if known else None

    def add_count(
        self, evaluation: Evaluation, dataset: Dataset, split: str, others: Sequence[KnowsRecords] = ()
    ) -> Evaluation:
        """Return an evaluation that also says how many of its records the model was trained on."""
        seen = self.count_seen(dataset, split, others)
        if seen is None:
            return replace(evaluation, values={**evaluation.values, "trained_on": None})
        values = {**evaluation.values, "records": seen.records, "trained_on": seen.trained_on}
        return replace(evaluation, values=values, text=f"{evaluation.text}\n{seen}")
