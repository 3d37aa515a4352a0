"""The recurrent language model as a task: what its loss is made of, and what it learns."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.plain import PLAIN
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.tasks.language import training as module
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sentences whose objects agree with their subjects, three words away: too far for a bigram."""
    dice = random.Random(2)
    pairs = [("cat", "mouse"), ("dog", "bone"), ("boy", "ball"), ("moon", "river")]
    lines = []
    for _ in range(300):
        subject, thing = dice.choice(pairs)
        verb = dice.choice(["sees", "likes", "follows", "finds"])
        lines.append(f"the {subject} {verb} the {dice.choice(['old', 'new'])} {thing} .")
    path = tmp_path_factory.mktemp("text") / "agreement.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def task(text):
    def build(**settings):
        small = {
            "embedding_size": 10,
            "hidden_size": 10,
            "batch_size": 3,
            "num_steps": 8,
            "tokens": "word",
            "counted": "none",
            **PLAIN,
        }
        config = LanguageConfig(data=str(text), device="cpu", **{**small, **settings})
        dataset = open_dataset(str(text))
        return RecurrentLanguage.create(config, dataset).build_objective(dataset)

    return build


def batches(task, count=2):
    return [batch for batch, _ in zip(task.batches(0, 1), range(count), strict=False)]


def gradients(task, batch, carried=()):
    task.model.zero_grad()
    loss, _ = task.loss(batch, carried)
    loss.total.backward()
    return {
        name: None if weight.grad is None else weight.grad.clone()
        for name, weight in task.model.named_parameters()
    }


def beats_the_bigram(config, dataset, folder):
    values = RecurrentLanguage.create(config, dataset).fit(dataset, folder)
    assert values["best_epoch"] > 1 or config.epochs == 1
    settings = {"tokens": config.tokens, "normaliser": config.normaliser, "layout": config.layout}
    bigram = NgramLanguageModel.create(NgramConfig(data=config.data, order=2, **settings), dataset)
    counted = bigram.count(dataset).likelihood(dataset, "valid").perplexity
    return tt.load(folder).evaluate(dataset, split="valid")["perplexity"], counted


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_beats_the_bigram(cell, text, tmp_path):  # R40, in small
    settings = {**PLAIN, "embedding_size": 24, "hidden_size": 24, "num_steps": 18, "lr": 0.03}
    settings |= {"batch_size": 8, "tokens": "word", "epochs": 10, "device": "cpu"}
    config = LanguageConfig(data=str(text), cell=cell, **settings)
    ours, counted = beats_the_bigram(config, open_dataset(str(text)), tmp_path / "run")
    assert ours < 0.85 * counted


def test_beats_the_bigram_on_the_time_machine(corpora, tmp_path):  # R40
    settings = {**PLAIN, "embedding_size": 48, "hidden_size": 48, "num_steps": 32, "lr": 0.01}
    settings |= {"batch_size": 16, "max_tokens": 100_000, "epochs": 1, "device": "cpu"}
    config = LanguageConfig(data="timemachine", cell="gru", **settings)
    ours, counted = beats_the_bigram(config, open_dataset("timemachine"), tmp_path / "run")
    assert ours < 0.9 * counted


def test_warm_up_adds_no_loss(task):  # R42
    warm = task(warm_up=3)
    (batch,) = batches(warm, 1)
    loss, _ = warm.loss(batch, ())
    labels = batch.labels.clone()
    labels[:3] = (labels[:3] + 1) % warm.model.vocabulary_size
    assert torch.equal(warm.loss(replace(batch, labels=labels), ())[0].total, loss.total)
    labels[3] = (labels[3] + 1) % warm.model.vocabulary_size
    assert not torch.equal(warm.loss(replace(batch, labels=labels), ())[0].total, loss.total)
    assert warm.count(batch) == (8 - 3) * 3
    # The state does come from there: it is the loss of the rest, read after the beginning.
    state = warm.model(batch.inputs[:3]).state
    outputs = warm.model(batch.inputs[3:], state).outputs
    rest = warm.model.head.loss(outputs.flatten(0, 1), batch.labels[3:].flatten())
    torch.testing.assert_close(loss.total, rest)


def test_no_gradient_flows_through_the_warm_up(task):  # R42
    for flows in (False, True):
        warm = task(warm_up=3, warm_up_gradient=flows, tied=False)
        (batch,) = batches(warm, 1)
        inputs = batch.inputs.clone()
        inputs[:3], inputs[3:] = 1, inputs[3:].clamp(min=2)  # token 1 is read in the warm-up only
        found = gradients(warm, replace(batch, inputs=inputs))["embedding.weight"]
        assert bool(found[1].any()) == flows
        assert bool(found[2:].any())


@pytest.mark.parametrize(
    ("sampling", "goes_on"), [("sequential", True), ("rotated", True), ("random", False)]
)
def test_rows_that_go_on_hand_their_state_over(task, sampling, goes_on):
    one = task(sampling=sampling)
    first, second = list(one.batches(0, 1))[:2]
    _, handed = one.loss(first, ())
    assert (second.continues, bool(handed)) == (goes_on, goes_on)


def test_warm_up_goes_on_from_the_carried_state(task):  # R42
    warm = task(warm_up=3)
    first, second = batches(warm)
    _, handed = warm.loss(first, ())
    loss, last = warm.loss(second, handed)
    state = warm.model(torch.cat([first.inputs, second.inputs[:3]])).state
    outputs, _, reached = warm.model(second.inputs[3:], state)
    rest = warm.model.head.loss(outputs.flatten(0, 1), second.labels[3:].flatten())
    torch.testing.assert_close(loss.total, rest)
    torch.testing.assert_close(last, tuple(part.detach() for part in reached))
    assert not torch.allclose(warm.loss(second, ())[0].total, rest)


def block_by_block(task, batch, state, tau, warm_up, flows):
    """Each block read on its own, after its warm-up, from where the one before it stopped."""
    outputs, labels = [], []
    for first in range(0, len(batch.inputs), tau):
        inputs = batch.inputs[first : first + tau]
        state = tuple(part.detach() for part in state)
        with torch.set_grad_enabled(flows):
            state = task.model(inputs[:warm_up], state).state
        if len(inputs) > warm_up:
            read, _, state = task.model(inputs[warm_up:], state)
            outputs.append(read)
            labels.append(batch.labels[first + warm_up : first + tau])
    return outputs, torch.cat(labels)


@pytest.mark.parametrize("flows", [False, True])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_each_truncated_block_warms_up(task, cell, flows):  # R42
    """Twelve steps in blocks of five: the last block is too short to learn from."""
    tau, warm_up = 5, 2
    settings = {"num_steps": 12, "truncation": "truncated", "tau": tau, "warm_up": warm_up, "tied": False}
    penalties = {"activation_penalty": 2.0, "temporal_penalty": 3.0}
    warm = task(cell=cell, warm_up_gradient=flows, num_layers=2, **settings, **penalties)
    first, second = batches(warm)
    _, handed = warm.loss(first, ())
    assert warm.count(second) == 2 * (tau - warm_up) * 3
    found = gradients(warm, second, handed)
    loss, last = warm.loss(second, handed)
    warm.model.zero_grad()
    outputs, labels = block_by_block(warm, second, handed, tau, warm_up, flows)
    hidden = torch.cat(outputs)
    total = warm.model.head.loss(hidden.flatten(0, 1), labels.flatten())
    total.backward(retain_graph=True)
    torch.testing.assert_close(loss.total, total)
    for name, weight in warm.model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad)
    changes = torch.cat([block.diff(dim=0) for block in outputs])
    penalty = 2 * hidden.square().mean() + 3 * changes.square().mean()
    torch.testing.assert_close(loss.penalty, penalty * len(labels) * 3)
    torch.testing.assert_close(last, tuple(part.detach() for part in warm.model(second.inputs, handed).state))


def test_the_cuts_stay_where_the_warm_up_has_no_gradient(task):  # R42
    """What is cut is cut: weights learn otherwise than where gradients run through the whole row."""
    settings = {"num_steps": 12, "warm_up": 1}
    whole = task(**settings)
    (batch,) = batches(whole, 1)
    recurrent = next(name for name, _ in whole.model.named_parameters() if "weight_hh" in name)
    full = gradients(whole, batch)[recurrent]
    torch.manual_seed(0)
    for cut in ({"truncation": "truncated", "tau": 4}, {"truncation": "randomised", "pi": 0.5}):
        assert not torch.allclose(gradients(task(**settings, **cut), batch)[recurrent], full)


def test_warm_up_leaves_something_to_learn(task):
    with refuses("warm_up", "8"):
        task(warm_up=8)
    with refuses("warm_up", "5", "tau=5"):
        task(warm_up=5, truncation="truncated", tau=5)
    assert task(warm_up=5, tau=5).count(batches(task(), 1)[0]) == 3 * 3  # no blocks, so tau is no bound


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_three_initial_states(task, cell):  # R43
    zero, learned = task(cell=cell), task(cell=cell, initial="learned")
    assert all(not part.any() for part in zero.model.initial_state(3))
    first, second = batches(learned)
    assert (first.continues, second.continues) == (False, True)
    names = dict(learned.model.named_parameters()).keys() - dict(zero.model.named_parameters()).keys()
    assert names
    found = gradients(learned, first)
    assert all(found[name].any() for name in names)
    # Carried: the second batch goes on from where the first one stopped, and no gradient goes back there.
    loss, handed = zero.loss(first, ())
    assert all(not part.requires_grad for part in handed)
    carried = zero.loss(second, handed)[0].total
    whole = torch.cat([first.inputs, second.inputs]), torch.cat([first.labels, second.labels])
    outputs = zero.model(whole[0]).outputs
    both = zero.model.head.loss(outputs.flatten(0, 1), whole[1].flatten())
    torch.testing.assert_close(loss.total + carried, both)
    assert not torch.allclose(zero.loss(second, ())[0].total, carried)
    # Where the state is carried, the learned one has no part.
    entering = learned.loss(first, ())[1]
    assert all(gradients(learned, second, entering)[name] is None for name in names)


def test_truncations(task):  # R53, that they run
    full = task()
    (batch,) = batches(full, 1)
    whole = gradients(full, batch)
    same = gradients(task(truncation="truncated", tau=8), batch)
    certain = gradients(task(truncation="randomised", pi=1.0), batch)
    cut = gradients(task(truncation="truncated", tau=2), batch)
    torch.manual_seed(0)
    drawn = [gradients(task(truncation="randomised", pi=0.5), batch) for _ in range(2)]
    recurrent = next(name for name in whole if "weight_hh" in name)
    for name in whole:
        torch.testing.assert_close(same[name], whole[name])
        torch.testing.assert_close(certain[name], whole[name])
    assert not torch.allclose(cut[recurrent], whole[recurrent])
    assert not torch.allclose(drawn[0][recurrent], whole[recurrent])
    assert task(truncation="truncated").fixed_shapes
    assert not task(truncation="randomised").fixed_shapes


def test_validation_does_not_depend_on_how_it_is_cut(task, monkeypatch):
    """Perplexity is right whatever the batching: a sum over a count, not a mean of means."""
    one = task(valid_rows=1)
    one.model.eval()
    ids = one.valid.tolist()
    [log_probs] = one.model.log_probs([ids])
    for steps in (128, 7, 1):
        monkeypatch.setattr(module, "VALIDATION_STEPS", steps)
        sums = one.validate(0, 1)
        assert sums["tokens"] == len(ids) - 1
        assert sums["nats"] == pytest.approx(-log_probs[1:].sum(), rel=1e-5)
    judged = one.summarise(sums)
    assert judged["perplexity"] == pytest.approx(np.exp(sums["nats"] / sums["tokens"]))
    assert judged["perplexity"] == pytest.approx(2 ** judged["bits_per_token"])
    shared = [one.validate(rank, 3) for rank in range(3)]
    assert sum(part["tokens"] for part in shared) == len(ids) - 1


def test_validation_by_windows(task):
    windows = task(sampling="overlapping", train_windows=50, valid_windows=20)
    assert windows.validate(0, 1)["tokens"] == 20 * 8
    # They are the windows after those of the training part.
    windows.model.eval()
    rows = torch.from_numpy(
        np.stack([windows.train[at : at + 9] for at in range(50, 70)], axis=1).astype("int64")
    )
    wanted = windows.model.head.loss(windows.model(rows[:-1]).outputs, rows[1:])
    assert windows.validate(0, 1)["nats"] == pytest.approx(wanted.item(), rel=1e-5)
    with refuses("valid_windows", "sampling=overlapping", "train_windows"):
        task(valid_windows=20)


def test_a_softmax_begins_with_the_frequencies_of_what_is_learned_from(task, text):
    def begun(**settings):
        one = task(**settings)
        return one, one.model.head.bias.detach().softmax(0)

    whole, found = begun()
    counts = torch.bincount(torch.from_numpy(whole.train.astype("int64")), minlength=len(found)) + 1
    torch.testing.assert_close(found, counts / counts.sum())
    windows, found = begun(sampling="overlapping", train_windows=9, valid_windows=9)
    seen = torch.from_numpy(windows.train[: 9 + windows.config.num_steps].astype("int64"))
    counts = torch.bincount(seen, minlength=len(found)) + 1
    torch.testing.assert_close(found, counts / counts.sum())
    assert not begun(output_bias="zeros")[0].model.head.bias.any()


def test_what_the_text_has_not_is_refused_by_name(task, text):
    settings = {"sampling": "overlapping", "max_tokens": 60}  # 52 windows of 8 steps
    assert len(task(**settings, train_windows=50, valid_windows=2).batches(0, 1)) == 17
    with refuses("train_windows", "53", "52", "8"):
        task(**settings, train_windows=53)
    with refuses("valid_windows", "3", "2"):
        task(**settings, train_windows=50, valid_windows=3)
    for sampling in ("sequential", "rotated", "random", "overlapping"):
        with refuses(f"{text}, split train", "2"):
            task(sampling=sampling, max_tokens=2)


def test_penalties_add_up_like_the_loss(task):
    """Twice the rows, twice the penalty: only then do two processes agree with one."""
    both = task(activation_penalty=2.0, temporal_penalty=1.0)
    (batch,) = batches(both, 1)
    twice = replace(
        batch,
        inputs=batch.inputs.repeat(1, 2),
        labels=batch.labels.repeat(1, 2),
        lengths=batch.lengths.repeat(2),
    )
    once, double = both.loss(batch, ())[0], both.loss(twice, ())[0]
    torch.testing.assert_close(double.penalty, 2 * once.penalty)
    torch.testing.assert_close(double.total, 2 * once.total)
    assert task().loss(batch, ())[0].penalty is None
