"""Language models read from one-hot vectors, in windows with a warm-up, and after a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.layers.embedding import MAX_ONE_HOT, OneHotEmbedding, one_hot
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.readers import window_surprisals

LINES = ["the cat sees the dog", "the dog sees a bird", "a bird sings", "the cat sleeps", "a dog runs"] * 12
TINY = {"epochs": 2, "batch_size": 4, "num_steps": 6, "hidden_size": 8, "progress": "none", "tokens": "char"}


@pytest.fixture(scope="module")
def model() -> Any:
    return tt.train("language", LINES, **{**TINY, "epochs": 15, "hidden_size": 24})


def test_one_hot_input_is_the_embedding_of_the_identity() -> None:  # R26, R59
    torch.manual_seed(0)
    shared = {"cell": "gru-before", "hidden_size": 5, "tied": False}
    own = RecurrentLanguageModel(7, embedding="one-hot", **shared)
    table = RecurrentLanguageModel(7, embedding_size=7, **shared)
    table.stack.load_state_dict(own.stack.state_dict())
    with torch.no_grad():
        table.embedding.weight.copy_(torch.eye(7))
    ids = torch.randint(7, (9, 3))
    assert torch.equal(own(ids).outputs, table(ids).outputs)
    assert torch.equal(own.embedding(ids), one_hot(ids, 7))
    assert not any(
        name.startswith("embedding") for name in [*own.state_dict(), *dict(own.named_parameters())]
    )


def test_one_hot_input_needs_weights_of_its_own_for_the_output() -> None:
    with refuses("tied"):
        RecurrentLanguageModel(7, embedding="one-hot", tied=True)
    with refuses("embedding", f"{MAX_ONE_HOT + 1:,}"):
        OneHotEmbedding(MAX_ONE_HOT + 1)


def test_the_notes_model_trains_and_is_saved_without_a_table(tmp_path: Path) -> None:  # R59
    notes = {"embedding": "one-hot", "cell": "gru-before", "init": "scratch", "optimizer": "sgd", "lr": 1}
    trained = tt.train("language", LINES, out=tmp_path / "run", **{**TINY, **notes, "output_bias": "zeros"})
    assert trained.config.tied is False
    again = tt.load(tmp_path / "run")
    assert again.score("the cat") == trained.score("the cat")
    with refuses("embedding_size", "embedding=one-hot"):
        tt.train("language", LINES, **TINY, embedding="one-hot", embedding_size=16)


def test_a_prompt_is_read_and_not_counted(model: Any) -> None:  # R7, R42
    (whole,) = model.score("the cat")
    (rest,) = model.score(" cat", prompt="the")
    assert rest.tokens == whole.tokens[3:]
    assert rest.log_probs == pytest.approx(whole.log_probs[3:], abs=1e-5)
    (alone,) = model.score(" cat")
    assert alone.log_probs != pytest.approx(rest.log_probs, abs=1e-5)


def test_a_prompt_in_the_runner_means_the_same(model: Any, tmp_path: Path) -> None:  # R108
    pytest.importorskip("onnxruntime")
    from throughtime.runtime import load

    model.export(tmp_path / "onnx")
    (ours,), (theirs,) = (one.score([" cat"], prompt="the") for one in (model, load(tmp_path / "onnx")))
    assert theirs.tokens == ours.tokens
    assert theirs.log_probs == pytest.approx(ours.log_probs, abs=1e-4)


def test_a_model_from_right_to_left_takes_no_prompt() -> None:
    backward = tt.train("language", LINES, **{**TINY, "epochs": 1}, reversed=True)
    with refuses("prompt"):
        backward.score("cat", prompt="the")


@pytest.mark.parametrize(("window", "warm_up"), [(5, 0), (5, 2), (7, 6), (40, 3)])
def test_windows_start_anew_and_count_each_token_once(window: int, warm_up: int) -> None:  # R42
    torch.manual_seed(1)
    network = RecurrentLanguageModel(9, cell="gru", embedding_size=4, hidden_size=4).eval()
    ids = np.random.default_rng(0).integers(0, 9, 38)
    found = list(window_surprisals(network, ids, window, warm_up))
    assert sum(part.size for part in found) == len(ids) - 1 - warm_up
    # One window by hand: the second starts where the first one's counted part makes it start.
    start = window - warm_up
    if start + window < len(ids):
        piece = torch.from_numpy(ids[start : start + window + 1])[:, None]
        logits = network.head.log_probs(network(piece[:-1]).outputs[:, 0])
        wanted = -logits[torch.arange(window), piece[1:, 0]][warm_up:]
        column = np.concatenate(found, axis=1)[:, 1] if len(found) == 1 else found[0][:, 1]
        assert column == pytest.approx(wanted.detach().numpy(), abs=1e-5)


def test_evaluation_in_windows_leaves_the_warm_up_out(model: Any) -> None:  # R42
    whole = model.evaluate(split="train")
    found = model.evaluate(split="train", window=6, warm_up=2)
    assert found.values["tokens"] == whole.values["tokens"] - 3
    assert len(found.values["by_position"]) == 4
    assert "warm_up:2" in found.signature
    assert found.values["perplexity"] == pytest.approx(math.exp(found.values["loss"]))
    # With a state that was warmed up, prediction is better than from a new one.
    assert found.values["perplexity"] < model.evaluate(split="train", window=6).values["perplexity"]
    with refuses("warm_up", "6"):
        model.evaluate(split="train", window=6, warm_up=6)
    with refuses("window", "cache"):
        model.evaluate(split="train", window=6, cache=10)


def test_perplexity_by_position_begins_with_the_first_that_counts(model: Any) -> None:  # R42
    dataset = model.open_data()
    ids = model.ids(dataset, "train")
    found = list(window_surprisals(model.model, ids, 6, 2))
    wanted = [
        math.exp(np.concatenate([part[at] for part in found if at < len(part)]).mean()) for at in range(4)
    ]
    values = model.evaluate(split="train", window=6, warm_up=2).values
    assert values["by_position"] == pytest.approx(wanted, rel=1e-9)
    assert len({round(value, 6) for value in wanted}) == 4
    # From a new state the first position is the hardest: it is the perplexity of the text without a context.
    alone = model.evaluate(split="train", window=6).values["by_position"]
    assert alone[0] == max(alone)
    assert alone[0] == pytest.approx(model.evaluate(split="train", window=1).values["perplexity"], rel=0.1)


def test_validation_leaves_the_warm_up_out(model: Any) -> None:  # R42
    dataset = model.open_data()
    plain = model.build_objective(dataset).validate(0, 1)
    config = model.config.model_copy(update={"warm_up": 3})
    changed = model.build_objective(dataset)
    changed.config = config
    found = changed.validate(0, 1)
    rows = min(config.valid_rows, plain["tokens"])
    assert 0 < found["tokens"] < plain["tokens"]
    assert plain["tokens"] - found["tokens"] <= 3 * rows
    assert found["nats"] < plain["nats"]


def test_the_commands_take_prompts_windows_and_warm_ups(
    throughtime: Callable[..., Any], model: Any, tmp_path: Path
) -> None:
    run, picture = tmp_path / "run", tmp_path / "positions.png"
    model.save(run)
    values = throughtime("score", run, " cat", " dog", "--prompt", "the", "--json").json
    assert [len(one["tokens"]) for one in values["sentences"]] == [5, 5]
    assert values["prompt"] == "the"
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES), encoding="utf-8")
    words = ("evaluate", run, "--data", text, "--split", "all", "--json")
    values = throughtime(*words, "--window", 6, "--warm-up", 2, "--plot", picture).json
    assert values["warm_up"] == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert throughtime(*words, "--plot", picture).code == 2
