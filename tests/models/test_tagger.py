"""The tagger on ragged sentences: what a row says does not depend on its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import NO_LABEL, Reading, TaggedBatches, TaggedRows
from throughtime.models.language import FrozenReader, RecurrentLanguageModel
from throughtime.tasks.tag.network import SequenceTagger, SpellingReader

SENTENCES = [[3, 1, 4, 1], [2], [5, 1], [4, 4, 2]]


def rows(sentences=SENTENCES, labels=(0, 1, NO_LABEL, 2)):
    ids = RaggedIds.of(sentences)
    spellings = RaggedIds.of([[1], [2, 3, 4], [5, 6], [7], [1, 2, 3, 4, 5], [6]])
    read = RaggedIds.of([[0] + [one for word in words for one in (word, 7)] for words in sentences])
    places = RaggedIds.of([[1 + 2 * place for place in range(len(words))] for words in sentences])
    return TaggedRows(ids, ids, spellings, ids, np.array(labels), (Reading(read, places),) * 2)


def batch(given, **options):
    return next(iter(TaggedBatches(given, batch_size=9, shuffle=False, **options)))


@pytest.fixture
def readers():
    torch.manual_seed(2)
    models = [RecurrentLanguageModel(9, embedding_size=size, hidden_size=size) for size in (4, 6)]
    return [FrozenReader(model) for model in models]


def new(readers=(), **options):
    torch.manual_seed(1)
    sizes = {"word_size": 5, "character_size": 3, "character_hidden_size": 4, "hidden_size": 6}
    return SequenceTagger(6, 8, 7, 3, readers=readers, language_size=5, **sizes, **options)


@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru"])
def test_a_padded_batch_is_each_row_alone(readers, cell):  # R65: padding never leaks in
    model = new(readers, cell=cell).eval()
    together = batch(rows())
    found = model(together)
    for column, number in enumerate(together.indices.tolist()):
        alone = model(batch(rows([SENTENCES[number]], [0])))
        length = len(SENTENCES[number])
        torch.testing.assert_close(found.tags[:length, column], alone.tags[:, 0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.labels[column], alone.labels[0], rtol=1e-4, atol=1e-5)


def test_a_spelling_is_read_from_both_ends():
    reader = SpellingReader(9, embedding_size=3, hidden_size=4).eval()
    spelled = torch.tensor([[1, 5], [2, 0], [3, 0]])
    found = reader(spelled, torch.tensor([3, 1]))
    alone = reader(torch.tensor([[5]]), torch.tensor([1]))
    torch.testing.assert_close(found[1:], alone)
    changed = reader(torch.tensor([[1], [2], [4]]), torch.tensor([3]))
    assert not torch.allclose(found[0, :4], changed[0, :4])
    assert not torch.allclose(found[0, 4:], changed[0, 4:])


def test_language_models_learn_nothing_and_are_no_weights_of_the_tagger(readers):
    model = new(readers)
    before = [weight.clone() for reader in readers for weight in reader.model.parameters()]
    model(batch(rows())).tags.sum().backward()
    assert all(weight.grad is None for reader in readers for weight in reader.model.parameters())
    after = [weight for reader in readers for weight in reader.model.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert model.language.weight.grad is not None
    assert not any("readers" in name for name, _ in model.named_parameters())


def test_a_long_text_is_read_in_pieces(readers, monkeypatch):
    ids = torch.randint(0, 9, (20, 2), generator=torch.Generator().manual_seed(0))
    places = torch.tensor([[0, 3], [7, 4], [19, 12]])
    whole = readers[0](ids, places)
    monkeypatch.setattr("throughtime.models.language.STEPS_AT_ONCE", 3)
    torch.testing.assert_close(readers[0](ids, places), whole)
    outputs = readers[0].model(ids).outputs
    torch.testing.assert_close(whole[2, 1], outputs[12, 1])
