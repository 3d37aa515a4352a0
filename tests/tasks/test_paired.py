"""A network and the counted model beside it are one model: mixed, saved, resumed, served and exported."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.errors import InterruptedRunError
from throughtime.fit.learner import Learner
from throughtime.metrics.measures import mix_log_probs
from throughtime.serve.writing import Draft, SamplingOptions, _Page

NEXT = {"the": "cat dog bird", "cat": "sees likes", "dog": "sees hears", "bird": "hears", "sees": "the"}
SETTINGS = {"hidden_size": 12, "epochs": 2, "device": "cpu", "progress": "none"}


def lines(count=300):
    """Lines of which each word depends on the one before it."""
    dice = random.Random(5)
    found = []
    for _ in range(count):
        words = ["the"]
        while len(words) < dice.randint(3, 9):
            words.append(dice.choice(NEXT.get(words[-1], "the").split()))
        found.append(" ".join(words))
    return found


@pytest.fixture(scope="module", params=["lines", "stream", "reversed"])
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "text.txt").write_text("\n".join(lines()) + "\n")
    chosen = {"reversed": True} if request.param == "reversed" else {"layout": request.param}
    return tt.train("language", folder / "text.txt", out=folder / "run", **SETTINGS, **chosen)


def test_it_is_the_mean_of_both_and_no_worse_than_either(pair):
    shown = pair.evaluate(split="valid").values
    ids = pair.framing.ids(lines()[0])
    network = tt.models.language.RecurrentLanguageModel.log_probs(pair.model, [ids])[0]
    counted = pair.model.counted.log_probs([ids])[0]
    mixed = mix_log_probs([network, counted], pair.model.weights)
    np.testing.assert_allclose(pair.model.log_probs([ids])[0], mixed)
    parts = shown["parts"]
    assert shown["nats"] <= min(parts["network"]["nats"], parts["counted"]["nats"]) * 1.01
    assert f"{shown['shares']['counted']:.0%} counted" in (pair.folder.path / "README.md").read_text()


def test_steps_are_the_whole_and_texts_join_and_leave(pair):
    texts = [pair.framing.ids(line) for line in lines()[:3]]
    page, gained = _Page(pair), []
    with torch.inference_mode():
        last, state, memory = pair.model.start([texts[0][:2]])
        for token in texts[0][2:]:
            step = pair.model.step(last, state, memory)
            gained.append(float(step.log_probs[0, token]))
            last, state = torch.tensor([token]), step.state
    np.testing.assert_allclose(gained, pair.model.log_probs([texts[0]])[0][2:], atol=1e-5)
    drafts = [Draft(ids[:4], SamplingOptions(4 + n, seed=n), pair.framing) for n, ids in enumerate(texts)]
    for draft in drafts:
        page.join([draft])
        page.step()
    while page.drafts:
        page.step()
    for number, draft in enumerate(drafts):
        alone, room = Draft(texts[number][:4], draft.options, pair.framing), _Page(pair)
        room.join([alone])
        while room.drafts:
            room.step()
        assert [one.token for one in alone.tokens] == [one.token for one in draft.tokens]


def test_an_export_answers_as_the_trained_model(pair, tmp_path):
    pair.export(tmp_path / "exported")
    runner = tt.runtime.load(tmp_path / "exported")
    for line in ("", *lines()[:3]):
        given, expected = runner.score(line)[0], pair.score(line)[0]
        np.testing.assert_allclose(given.log_probs, expected.log_probs, atol=1e-4)
    prompts, drawn = ["the", "", "dog unseen"], {"seed": 4, "max_new_tokens": 20}
    assert [one.text for one in runner.generate(prompts, **drawn)] == [
        one.text for one in pair.generate(prompts, **drawn)
    ]


def test_a_resumed_run_is_the_same(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines()) + "\n")
    whole = tt.train("language", text, out=tmp_path / "whole", **SETTINGS)
    update, made = Learner.update, []

    def stop(learner, *given):
        made.append(1)
        if len(made) == 4:
            raise KeyboardInterrupt
        return update(learner, *given)

    monkeypatch.setattr(Learner, "update", stop)
    more = {**SETTINGS, "checkpoint_every": 2}
    with pytest.raises((KeyboardInterrupt, InterruptedRunError)):
        tt.train("language", text, out=tmp_path / "cut", **more)
    monkeypatch.undo()
    resumed = tt.train("language", text, out=tmp_path / "cut", resume=True, **more)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert whole.score(lines()[0]) == resumed.score(lines()[0])


def test_it_can_be_left_out_and_damage_is_found(pair, tmp_path):
    alone = tt.train("language", lines(), counted="none", **SETTINGS)
    assert alone.assets.counted is None
    assert "parts" not in alone.evaluate(lines(), split="all").values
    pair.save(tmp_path / "copy")
    again = tt.load(tmp_path / "copy", device="cpu")
    assert again.score(lines()[1]) == pair.score(lines()[1])
    assert (
        json.loads((tmp_path / "copy" / "config.json").read_text())["config"]["counted"]
        == pair.config.counted
    )
    (tmp_path / "copy" / "counted.safetensors").unlink()
    with refuses("counted.safetensors"):
        tt.load(tmp_path / "copy", device="cpu")


def test_texts_of_many_rare_words_are_read_in_parts(tmp_path):
    dice = random.Random(2)
    rare = ["".join(dice.choices("abcdefghij", k=7)) for _ in range(300)]
    found = tt.train("language", [f"the cat {word} sees" for word in rare], max_size=300, **SETTINGS)
    assert found.config.tokens == "bpe"
    assert tt.train("language", lines(), **SETTINGS).config.tokens == "unicode"


def test_a_run_that_begins_with_another_counts_its_own_text(pair, tmp_path):
    others = [line.replace("cat", "dog") for line in lines(200)]
    run = pair.folder.path
    again = tt.train("language", others, init_from=run, out=tmp_path / "run", epochs=1, progress="none")
    assert again.config.counted == pair.config.counted
    counts = [int(model.model.counted.counts.levels[0].count.sum()) for model in (again, pair)]
    assert counts[0] < counts[1]
