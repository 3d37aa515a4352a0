"""Searches that are replayed from recordings: when they are, and that they find what the plain loop finds."""

from __future__ import annotations

import contextlib
import weakref
from types import SimpleNamespace

import pytest
import torch
from tests.search.networks import CAP, END, PROMPTS, beam, network, same
from tests.search.tables import Pairs

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import beam as kernels
from throughtime.gpu import fixed_strategies, search_store
from throughtime.gpu import search as recording
from throughtime.gpu.fixed_search import FixedSearch, leaves_softmax, stands_for
from throughtime.gpu.fixed_strategies import FORMS, FixedGreedy, fixed_form, recording_key
from throughtime.gpu.search import (
    STEPS_AT_ONCE,
    RecordedSearch,
    RecordedStart,
    search_fixed,
    suits,
)
from throughtime.gpu.search_history import read_results
from throughtime.gpu.search_store import RecordingStore
from throughtime.interrupt import InterruptError, interruptible
from throughtime.models.heads import SoftmaxHead
from throughtime.models.search_models import Bf16Model
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam, StochasticBeam
from throughtime.search.candidates import prune_by_token
from throughtime.search.constraints import minimum_length, no_token
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy, Sampling


class Hasty(Greedy):
    """A strategy of another package, which changes one method only."""

    def advance(self, log_probs, hypotheses):
        return super().advance(log_probs, hypotheses)


class Own(Hasty):
    """A strategy that has a fixed form, too."""


def test_strategies_that_choose_otherwise_use_the_plain_loop(monkeypatch):
    monkeypatch.setitem(FORMS, Own, FixedGreedy)
    assert recording_key(Greedy(END)) != recording_key(Greedy(None))
    assert recording_key(Own(END)) not in (recording_key(Greedy(END)), None)
    assert recording_key(Beam(END, 3)) != recording_key(Beam(END, 3, eager=True))
    changed = Beam(END, 3)
    changed.ceiling = lambda rank, length: rank
    others = (
        Hasty(END),
        changed,
        Beam(END, 3, limit=0.2),
        Beam(END, 3, prune=prune_by_token(0.2)),
        DiverseBeam(END, 6),
        StochasticBeam(END, 3),
    )
    assert [recording_key(one) for one in others] == [None] * len(others)


def test_on_a_cpu_every_search_is_the_plain_loop():
    assert not suits(network(), beam(), [], 5, CAP)
    assert not suits(Pairs(5, 4, 0), beam(), [], 5, CAP)


def test_a_search_that_nobody_wants_stops():
    with pytest.raises(InterruptError), interruptible(lambda: True):
        search_fixed(network(), PROMPTS, beam(), max_new_tokens=CAP)


@pytest.mark.parametrize("seed", range(6))
def test_no_step_runs_after_the_last_row_has_ended(seed):
    model, steps = Pairs(9, 4, seed=2, sharpness=0.5), []
    run = model.step
    model.step = lambda *given: steps.append(0) or run(*given)
    found = search_fixed(model, [[n] for n in range(9)], Sampling(END, seed=seed), max_new_tokens=90)
    assert len(steps) == max(len(one.path) for [one] in found) < 90


class DoneAtOnce:
    """An event of a GPU that has done everything that was launched, when the host asks."""

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass


@pytest.mark.parametrize("seed", range(6))
def test_a_gpu_that_is_ahead_of_the_host_ends_no_search_too_early(seed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    model, prompts = Pairs(9, 4, seed=2, sharpness=0.5), [[n] for n in range(9)]
    strategy = Sampling(END, seed=seed)
    rows, started = fixed_form(strategy).begin(9, 90), model.start(prompts)
    search = RecordedSearch(FixedSearch(fixed_form(strategy), [], END, rows, started, 90))
    search._events.extend([DoneAtOnce(), DoneAtOnce()])
    search.search.begin(rows, started)
    found = read_results(search.search, strategy, rows.live.numpy(), 9, search.run(model, 90))
    same(found, generate(model, prompts, Sampling(END, seed=seed), max_new_tokens=90))


class Custom(EncoderDecoder):
    """A network of one's own, which reads something else than its prompts."""

    def start(self, prompts):
        return super().start([[4, 4, 4]] * len(prompts))


@pytest.fixture
def replaying(monkeypatch):
    """Recordings run their work again, so that they need no GPU."""
    own = RecordingStore()
    monkeypatch.setattr(own, "record", lambda work, device: work)
    monkeypatch.setattr(recording, "RECORDINGS", own)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: Bf16Model(model.float())])
def test_prompts_of_one_shape_are_read_from_one_recording(wrap, replaying):
    model = wrap(network())
    for number in range(5):
        prompts = [[3 + number, 4, 5], [6] * (number % 3 + 1), [7, 8, 3 + number % 2]]
        source, lengths = model.prepare(prompts)
        if not number:
            reading = RecordedStart(source, lengths, source.device)
            reading.failed = False
        with torch.inference_mode():
            found, expected = reading(model, source, lengths), model.start(prompts)
        for own, other in zip((found[0], *found[1], *found[2].kept), flatten(expected), strict=True):
            torch.testing.assert_close(own, other)
        assert (reading.replay is None) == (number == 0)


def flatten(started):
    last, state, memory = started
    return last, *state, *memory.kept


def test_a_search_is_recorded_after_some_steps(replaying):
    model, search = network(), None
    for number in range(3):
        prompts = [[3 + number, 4, 5], [6, 4], [7, 8, 3]]
        with torch.inference_mode():
            started = model.start(prompts)
            rows = fixed_form(beam()).begin(3, CAP)
            if search is None:
                search = RecordedSearch(FixedSearch(fixed_form(beam()), [], END, rows, started, CAP))
                search.failed = False
            search.search.begin(rows, started)
            steps = search.run(model, CAP)
            found = read_results(search.search, beam(), rows.live.numpy(), 3, steps)
        same(found, generate(model, prompts, beam(), max_new_tokens=CAP))
        assert search.replay is not None


@pytest.mark.parametrize("cap", range(3, 12))
def test_several_steps_are_replayed_at_once_up_to_the_length_of_recent_searches(cap, replaying, monkeypatch):
    model, prompts, steps = Pairs(9, 4, seed=2, sharpness=0.5), [[n] for n in range(9)], []
    run, advance = model.step, RecordedSearch._advance
    model.step = lambda *given: steps.append(1) or run(*given)
    launches = []
    monkeypatch.setattr(
        RecordedSearch, "_advance", lambda *given: launches.append(advance(*given)) or launches[-1]
    )
    started, search = model.start(prompts), None
    for seed in range(8):
        strategy = Sampling(END, seed=seed)
        rows = fixed_form(strategy).begin(9, 16)
        if search is None:
            search = RecordedSearch(FixedSearch(fixed_form(strategy), [], END, rows, started, 16))
            search.failed = False
        search.search.begin(rows, started)
        done = search.run(model, cap)
        found = read_results(search.search, strategy, rows.live.numpy(), 9, done)
        needed = max(len(one.path) for [one] in found)
        assert sum(launches) == len(steps) == done <= min(cap, needed + STEPS_AT_ONCE - 1)
        assert seed or max(launches) == 1  # the first search does not know its length
        launches.clear()
        same(found, generate(model, prompts, Sampling(END, seed=seed), max_new_tokens=cap))
        steps.clear()
    assert (search.replay_several is not None) == (cap >= STEPS_AT_ONCE)


@pytest.mark.parametrize("wrap", [lambda model: model, Bf16Model], ids=["float32", "bf16"])
def test_a_kernel_computes_the_softmax_of_the_models_scores(wrap, emulated, monkeypatch):
    for name in ("LIKELIEST_WARPS", "BEAM_WARPS"):
        monkeypatch.setattr(kernels, name, 1)
    monkeypatch.setattr(fixed_strategies, "fits", lambda *given: True)
    scores, asked = SoftmaxHead.scores, []
    monkeypatch.setattr(SoftmaxHead, "scores", lambda *given: asked.append(0) or scores(*given))
    plain, barred = network(seed=3).float(), [no_token(0, 5), minimum_length(4, END)]
    with torch.no_grad():
        plain.head.bias[END] += 1
    model = wrap(plain)
    for strategy in (beam, lambda: Greedy(END)):
        expected = generate(model, PROMPTS, strategy(), max_new_tokens=CAP, constraints=barred)
        assert not asked
        found = search_fixed(model, PROMPTS, strategy(), max_new_tokens=CAP, constraints=barred)
        same(found, expected, 0.05 if wrap is Bf16Model else 1e-5)
        assert asked
        steps = max(len(one.path) for own in found for one in own)
        if strategy is not beam:
            assert len(asked) == steps - 1 < CAP - 1  # all steps but the first, and no more than are needed
        asked.clear()


class Sharpened(EncoderDecoder):
    """A network whose log-probabilities are not those of its head."""

    def step(self, last, state, memory):
        step = super().step(last, state, memory)
        return step._replace(log_probs=(2 * step.log_probs).log_softmax(dim=1))


def test_a_network_that_steps_otherwise_computes_its_own_softmax():
    model = network()
    own = Sharpened(model.encoder, model.decoder, model.head, bos_id=1)
    assert leaves_softmax(model)
    assert leaves_softmax(Bf16Model(model))
    assert not leaves_softmax(own)
    assert not leaves_softmax(Pairs(5, 4, 0))
    model.step = own.step
    assert not leaves_softmax(model)


@pytest.mark.parametrize("error", [RuntimeError(), ThroughtimeError("the CUDA driver failed")])
def test_what_cannot_be_recorded_runs_step_by_step(error, monkeypatch):
    def fail(work, device):
        raise error

    own, model, prompts = RecordingStore(), network(), [[3, 4, 5], [6, 4]]
    monkeypatch.setattr(own, "record", fail)
    monkeypatch.setattr(recording, "RECORDINGS", own)
    source, lengths = model.prepare(prompts)
    reading = RecordedStart(source, lengths, source.device)
    reading.failed = False
    with torch.inference_mode():
        for _ in range(3):
            started = reading(model, source, lengths)
        rows = fixed_form(beam()).begin(2, CAP)
        search = RecordedSearch(FixedSearch(fixed_form(beam()), [], END, rows, started, CAP))
        search.failed = False
        search.search.begin(rows, started)
        with pytest.warns(ThroughtimeWarning, match="cannot be recorded"):
            steps = search.run(model, CAP)
        found = read_results(search.search, beam(), rows.live.numpy(), 2, steps)
    same(found, generate(model, prompts, beam(), max_new_tokens=CAP))
    assert reading.failed
    assert search.failed


def test_after_a_failure_others_are_recorded_with_another_pool(monkeypatch):
    """torch records nothing more with the pool of a recording that failed."""
    seen, pools = [], iter(["first", "second"])

    def record(work, stream, pool):
        seen.append(pool)
        return work()

    def fail():
        raise RuntimeError("no")

    monkeypatch.setattr(search_store, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(pools))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: SimpleNamespace(wait_stream=lambda other: None))
    own, device = RecordingStore(), torch.device("cuda", 0)
    with pytest.raises(RuntimeError):
        own.record(fail, device)
    assert own.record(lambda: 7, device) == 7
    assert seen == ["first", "second"]


def test_a_network_that_starts_otherwise_is_not_recorded_there():
    model = network()
    own = Custom(model.encoder, model.decoder, model.head, bos_id=1).eval()
    given = [[3, 4], [5], [6, 7, 8], [9, 10]]
    same(
        search_fixed(own, given, beam(), max_new_tokens=CAP), generate(own, given, beam(), max_new_tokens=CAP)
    )
    assert not stands_for(own, "prepare", "start")
    assert stands_for(model, "prepare", "start")
    assert stands_for(Bf16Model(model), "prepare", "start")


class Work:
    device, replay = torch.device("cpu"), None


def test_a_model_is_watched_once_however_many_recordings_it_has(monkeypatch):
    own, watched, finalize = RecordingStore(), [], weakref.finalize
    monkeypatch.setattr(weakref, "finalize", lambda *given: watched.append(finalize(*given)))
    for _ in range(2):
        model = Work()
        with own:
            for number in range(30):
                own.keep(model, ("search", number), Work())
        assert len(own) == 24
        del model
        assert len(own) == 0
    assert len(watched) == 2
