"""Tagged sentences in batches: spelled once, dealt to processes, taken up again."""

from __future__ import annotations

import numpy as np
import torch
from tests.refusals import refuses

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import NO_LABEL, Reading, TaggedBatches, TaggedRows

WORDS = RaggedIds.of([[3, 1, 4, 1], [2], [5, 1], [4, 4, 2]])
SPELLINGS = RaggedIds.of([[1], [2, 3, 4], [5, 6], [7], [1, 2, 3, 4, 5], [6]])
ROWS = TaggedRows(WORDS, WORDS, SPELLINGS, WORDS, np.array([0, 1, NO_LABEL, 2]))


def test_each_distinct_word_is_spelled_once_a_batch():
    made = next(iter(TaggedBatches(ROWS, batch_size=9)))
    real = torch.arange(len(made.words))[:, None] < made.lengths
    forms = {int(word) for word in made.words[real]}
    assert made.characters.shape[1] <= len(forms) + 1  # and what padding points to
    for t, b in real.nonzero().tolist():
        column = made.spelled[t, b]
        spelling = made.characters[: made.character_lengths[column], column]
        assert spelling.tolist() == SPELLINGS[int(made.words[t, b])].tolist()


def test_readings_of_unequal_length_stand_above_each_other():
    longer = RaggedIds.of([[9, *row.tolist(), 9] for row in (WORDS[number] for number in range(4))])
    rows = TaggedRows(
        WORDS, WORDS, SPELLINGS, WORDS, ROWS.labels, (Reading(longer, WORDS), Reading(WORDS, WORDS))
    )
    made = next(iter(TaggedBatches(rows, batch_size=9)))
    assert made.read.shape == (2, 6, 4)
    column = made.indices.tolist().index(2)
    assert made.read[:, :, column].tolist() == [[9, 5, 1, 9, 0, 0], [5, 1, 0, 0, 0, 0]]
    assert next(iter(TaggedBatches(ROWS, batch_size=9))).read.shape == (0, 0, 4)


def test_no_sentence_is_refused():
    none = RaggedIds.of([])
    with refuses("sentences"):
        TaggedBatches(TaggedRows(none, none, none, none, np.zeros(0, np.int64)))
