"""The labels of texts: collected from data, numbered, and stored in a model folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, unknown
from throughtime.folder import ModelFolder

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.data.records import LabelledText

FILE = "labels.json"
FEW_TEXTS = 100
"""Up to this number of texts, any number of labels is accepted; more need two texts per label on average."""


class Labels:
    """Labels in alphabetical order, with their counts in the training data.

    >>> labels = Labels({"b": 3, "a": 1})
    >>> labels.names, labels.number("b"), labels.frequencies
    (('a', 'b'), 1, [0.25, 0.75])
    """

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = {name: counts[name] for name in sorted(counts)}
        self.names = tuple(self.counts)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def of(cls, dataset: Dataset) -> Labels:
        """Collect the labels of the training data."""
        counts = Counter(record.label for record in labelled_texts(dataset, "train"))
        texts = counts.total()
        if not texts:
            raise InputError(f"{dataset.name}, split train", "holds no labelled text")
        if texts > FEW_TEXTS and 2 * len(counts) > texts:
            raise InputError(
                dataset.name,
                f"has {len(counts):,} labels for {texts:,} texts; set label to the column of the label",
            )
        return cls(counts)

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        """Whether a label occurred in the training data."""
        return name in self._numbers

    def number(self, name: str) -> int:
        """Return the number of a label; refuse one that is not in the training data."""
        if name not in self._numbers:
            raise unknown("label", name, self.names)
        return self._numbers[name]

    @property
    def frequencies(self) -> list[float]:
        """The share of each label in the training data."""
        total = sum(self.counts.values())
        return [count / total for count in self.counts.values()]

    def save(self, folder: ModelFolder) -> None:
        """Write the labels to a model folder."""
        folder.write_json(FILE, {"labels": self.counts})

    @classmethod
    def load(cls, folder: ModelFolder) -> Labels:
        """Read the labels from a model folder."""
        counts = folder.read_json(FILE).get("labels")
        if not isinstance(counts, dict) or not counts:
            raise InputError(str(folder.path / FILE), "holds no labels; the file is damaged")
        return cls(counts)


def labelled_texts(dataset: Dataset, split: str) -> Iterator[LabelledText]:
    """Yield the labelled texts of a split; refuse a text without a label."""
    for record in dataset.labelled_texts(split):
        if not record.label:
            name = getattr(record.text, "name", None) or record.text[:40]
            raise InputError(dataset.name, f"has no label for {name!r}; every text needs one")
        yield record


def column_settings(dataset: Dataset, label: str = "label") -> dict[str, Any]:
    """Return the columns of a table as settings, so that the model finds them in other files too.

    `label` is the setting of the column of labels.
    """
    return {label if role == "label" else role: name for role, name in dataset.columns.items()}
