"""Searches that are replayed from CUDA graphs find what the plain loop finds."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch
from tests.search.networks import CAP, END, PROMPTS, beam, network, same

from throughtime.errors import DamagedModelError, ThroughtimeWarning
from throughtime.gpu import search as recording
from throughtime.gpu import search_store
from throughtime.gpu.search import RecordedSearch, RecordedStart, suits
from throughtime.gpu.search_store import RecordingStore
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.search_models import Bf16Model
from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam
from throughtime.search.constraints import minimum_length, no_repeated_ngram, no_token
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy, Sampling
from throughtime.tasks.translate.network import PRESETS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")


def plain(model, prompts, strategy, **options):
    """What the plain loop finds, on the same device."""
    return generate(model, prompts, strategy, max_new_tokens=CAP, watch=lambda moment: None, **options)


def check(model, strategies, prompts=PROMPTS, close=1e-9, **options):
    """Search twice: the first search records its step, the second replays it."""
    for strategy in strategies:
        assert suits(model, strategy(), options.get("constraints", []), len(prompts), CAP)
        expected = plain(model, prompts, strategy(), **options)
        for _ in range(2):
            same(generate(model, prompts, strategy(), max_new_tokens=CAP, **options), expected, close)


@pytest.fixture
def recordings(monkeypatch):
    """The recordings of one test."""
    own = RecordingStore()
    monkeypatch.setattr(recording, "RECORDINGS", own)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield own


def searches(recordings):
    return [one for one in recordings.list() if isinstance(one, RecordedSearch)]


def recorded(recordings):
    """Which searches were replayed; those that end at once are not, and a failure would have warned."""
    return [one.replay is not None for one in searches(recordings)]


STRATEGIES = {
    "greedy": lambda: Greedy(END),
    "endless": lambda: Greedy(None),
    "beam": lambda: beam(num_return_sequences=3),
    "eager": lambda: beam(eager=True),
    "wide": lambda: Beam(END, 7, length_penalty=1.0, num_return_sequences=4),
    "sampling": lambda: Sampling(END, num_return_sequences=2, seed=3),
    "truncated": lambda: Sampling(END, temperature=0.8, top_k=9, top_p=0.9, seed=4),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_translator_is_recorded(preset, recordings):
    model = network(preset).cuda()
    check(model, STRATEGIES.values())
    check(model, [beam], constraints=[no_token(0, 5), minimum_length(4, END)])
    check(model, [beam], prompts=PROMPTS[:1])
    assert recorded(recordings).count(True) > len(STRATEGIES) / 2
    assert len(searches(recordings)) == len(STRATEGIES) + 2


@pytest.mark.parametrize("preset", ["attention", "conditional", "main"])
def test_in_float32_kernels_choose(preset, recordings, allow_tf32):
    allow_tf32(False)
    barred = [no_token(0, 5), minimum_length(4, END)]
    for seed in range(4):
        model = network(preset, seed).float().cuda()
        check(model, STRATEGIES.values(), close=1e-4)
        check(model, [beam, STRATEGIES["eager"]], close=1e-4, constraints=barred)
    fused = [one.search._fused is not None for one in searches(recordings)]
    assert fused.count(True) > len(fused) / 3


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("head", ["softmax", "adaptive"])
def test_every_language_model_is_recorded(cell, head, recordings):
    torch.manual_seed(0)
    model = RecurrentLanguageModel(
        40, cell=cell, embedding_size=16, hidden_size=16, num_layers=2, head=head, tied=head == "softmax"
    )
    check(model.double().eval().cuda(), STRATEGIES.values(), prompts=[*PROMPTS, []])
    assert recorded(recordings).count(True) > len(STRATEGIES) / 2


@pytest.mark.parametrize(
    ("wrap", "close"),
    [
        (lambda model: model, 1e-9),
        (lambda model: model.float(), 1e-4),
        (lambda model: Bf16Model(model.float()), 0.05),
    ],
    ids=["float64", "float32", "bf16"],
)
@pytest.mark.parametrize("preset", ["attention", "main"])
def test_other_prompts_of_the_same_shape_are_read(preset, wrap, close, recordings, allow_tf32):
    allow_tf32(False)
    model = wrap(network(preset).cuda())
    for number in range(4):
        prompts = [[3 + (number + 2 * row) % 8] * (1 + (number + row) % 5) for row in range(6)]
        found = generate(model, prompts, Greedy(None), max_new_tokens=CAP)
        expected = plain(model, prompts, Greedy(None))
        for [one], [other] in zip(found, expected, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, rel=close)
    readings = [one for one in recordings.list() if isinstance(one, RecordedStart)]
    # Our kernels have no float64; torch packs a ragged batch on the host, which cannot be recorded.
    assert any(one.replay is not None for one in readings) == (close > 1e-9)


@pytest.mark.parametrize(
    ("wrap", "close"),
    [(lambda model: model, 1e-9), (lambda model: model.float(), 1e-4)],
    ids=["float64", "float32"],
)
def test_several_steps_are_replayed_at_once(wrap, close, recordings, allow_tf32):
    allow_tf32(False)
    model = wrap(network().cuda())
    for number in range(6):
        prompts = [[3 + (number + 2 * row) % 8] * (1 + (number + row) % 5) for row in range(6)]
        for cap in (CAP, 7):
            found = generate(model, prompts, beam(), max_new_tokens=cap)
            expected = generate(model, prompts, beam(), max_new_tokens=cap, watch=lambda moment: None)
            same(found, expected, close)
    assert [one.replay_several is not None for one in searches(recordings)] == [True]


def test_an_ensemble_is_recorded(recordings):
    both = Ensemble([network("main").cuda(), network("attention").cuda()], [1, 3])
    check(both, [beam, lambda: Greedy(None)])
    assert True in recorded(recordings)


def test_a_recording_sees_the_weights_of_now(recordings):
    model = network().cuda()
    check(model, [beam])
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(-1.5)  # in place: the same recording
    check(model, [beam])
    assert len(searches(recordings)) == 1
    model.load_state_dict({name: 2 * weight for name, weight in model.state_dict().items()}, assign=True)
    check(model, [beam])
    assert len(searches(recordings)) == 2
    before = plain(model, PROMPTS, beam())
    check(model.float().double(), [beam])
    assert plain(model, PROMPTS, beam()) != before


def test_a_model_in_bf16_is_recorded_once(recordings):
    model = network().float().cuda()
    rounded = Bf16Model(model)
    for _ in range(3):
        found = generate(rounded, PROMPTS, beam(), max_new_tokens=CAP)
        expected = plain(rounded, PROMPTS, beam())
        for [one], [other] in zip(found, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=0.05)
        with torch.no_grad():
            model.head.bias.add_(torch.randn_like(model.head.bias))
    assert recorded(recordings) == [True]


def test_few_recordings_are_kept_and_none_of_a_model_that_is_gone(recordings, monkeypatch):
    monkeypatch.setattr(search_store, "MAX_RECORDINGS", 4)
    first, second = network(seed=1).cuda(), network(seed=2).cuda()
    for width in range(2, 7):
        check(first, [lambda width=width: Beam(END, width, max_length=CAP)])
    assert len(recordings) == 4
    check(second, [beam])
    assert len(recordings) == 4
    del first
    gc.collect()
    assert len(recordings) == 2
    check(second, [beam, lambda: Greedy(END)])


def test_several_threads_search_at_once(recordings):
    models = [network(seed=number).cuda() for number in range(3)]
    expected = [plain(model, PROMPTS, beam()) for model in models]
    problems = []

    def work(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    same(generate(models[number], PROMPTS, beam(), max_new_tokens=CAP), expected[number])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number % 3,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not problems
    assert recorded(recordings) == [True] * 3


def test_the_plain_loop_serves_what_cannot_be_recorded(recordings):
    model = network().cuda()
    assert not suits(model, beam(), [no_repeated_ngram(2)], 5, CAP)
    assert not suits(model, DiverseBeam(END, 6), [], 5, CAP)
    assert not suits(model, beam(), [], 5, 10**9)
    assert not suits(model.train(), beam(), [], 5, CAP)
    model.eval().decoder.from_state.register_forward_hook(lambda *given: None)
    assert not suits(model, beam(), [], 5, CAP)
    model = network().cuda()
    model.decoder.recordable = False
    assert not suits(model, beam(), [], 5, CAP)
    assert not suits(Ensemble([network().cuda(), model]), beam(), [], 5, CAP)
    assert not recordings


def test_a_step_that_waits_for_the_gpu_runs_as_it_is(recordings):
    model = network().cuda()
    step = model.decoder.step

    def waiting(last, state, memory):
        assert int(last.max()) >= 0
        return step(last, state, memory)

    model.decoder.step = waiting
    expected = plain(model, PROMPTS, beam())
    with pytest.warns(ThroughtimeWarning):
        same(generate(model, PROMPTS, beam(), max_new_tokens=CAP), expected)
    same(generate(model, PROMPTS, beam(), max_new_tokens=CAP), expected)
    assert recorded(recordings) == [False]
    assert torch.rand(3, device="cuda").shape == (3,)  # the generator still draws
    check(network(seed=5).cuda(), [beam])


def test_a_damaged_model_is_refused(recordings):
    model = network().cuda()
    check(model, [beam])
    with torch.no_grad():
        model.head.weight[4, 2] = torch.nan
    for strategy in (beam(), Greedy(END), Sampling(END, seed=1)):
        with pytest.raises(DamagedModelError):
            generate(model, PROMPTS, strategy, max_new_tokens=CAP)
