"""The kernels of a beam search against its equations in torch: on the emulated GPU, and on a real one."""

from __future__ import annotations

import math

import pytest
import torch

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import beam as kernels
from throughtime.gpu import driver, fixed_strategies
from throughtime.gpu.fixed_search import FixedSearch
from throughtime.gpu.fixed_strategies import FixedGreedy, append_fixed, fixed_form
from throughtime.search.beam import Beam
from throughtime.search.constraints import minimum_length, no_token
from throughtime.search.generate import Memory
from throughtime.search.sampling import Greedy

END, STEPS = 2, 6

OPTIONS = {
    "bounded": {"num_beams": 4, "max_length": STEPS, "num_return_sequences": 2},
    "unbounded": {"num_beams": 3, "num_return_sequences": 3},
    "eager": {"num_beams": 5, "eager": True},
    "eager and bounded": {"num_beams": 2, "eager": True, "max_length": STEPS},
    "without penalty": {"num_beams": 3, "length_penalty": 0.0},
    "narrow": {"num_beams": 1, "length_penalty": 1.5},
    "endless": {"num_beams": 3, "end_id": None},
}
GREEDY = {"greedy": {}, "greedy and endless": {"end_id": None}}
CONSTRAINTS = {
    "none": [],
    "some": [no_token(0, 4), minimum_length(3, END)],
    "only the end": [no_token(*range(END), *range(END + 1, 7))],
    "not even the end": [no_token(*range(END), *range(END + 1, 7)), minimum_length(3, END)],
}
options = pytest.mark.parametrize("name", [*OPTIONS, *GREEDY])


@pytest.fixture
def emulated_beam(monkeypatch, emulated):
    """The kernels run on a GPU that is none, with few threads."""
    monkeypatch.setattr(kernels, "LIKELIEST_WARPS", 2)
    monkeypatch.setattr(kernels, "BEAM_WARPS", 1)
    monkeypatch.setattr(fixed_strategies, "fits", lambda *given: True)


def begin(strategy, constraints, sentences, device, form=fixed_form):
    form = form(strategy)
    rows = form.begin(sentences, STEPS)
    last = torch.zeros(sentences, dtype=torch.long, device=device)
    started = last, (), Memory.empty(sentences, device)
    search = FixedSearch(form, constraints, strategy.end_id, rows, started, STEPS)
    search.begin(rows, started)
    return search


def compare(name, constraints, sentences, words, device, log_probs, scores=None):
    """Feed the same numbers to both, step by step; as `scores` of this type if one is given."""
    kind, own = (Beam, OPTIONS[name]) if name in OPTIONS else (Greedy, GREEDY[name])
    strategy = kind(**{"end_id": END} | own)
    if constraints and strategy.end_id is None:
        return
    close = {"rtol": 1e-12, "atol": 0} if scores is None else {"rtol": 1e-5, "atol": 1e-5}
    reached = 0
    fused, plain = (begin(strategy, constraints, sentences, device) for _ in range(2))
    fused._fused = fused._fuse(torch.zeros(len(fused.last), words, device=device))
    for step in range(STEPS):
        given = log_probs(step, len(plain.last), words).to(device)
        if scores is None:
            fused._choose(given.clone())
        else:
            raw = (given + torch.arange(len(given), device=device)[:, None]).to(scores)
            given = raw.log_softmax(dim=1, dtype=torch.float32)
            fused._choose(raw, unnormalised=True)
        row = plain._choose(given.clone())
        living = plain.rows.live
        for search in (fused, plain):
            search.rows.length.add_(1)
        if kind is Greedy:  # each row continues itself, and none needs the best score
            row = torch.arange(sentences, device=device)
            plain.rows.best.copy_(fused.rows.best)
            plain.parents[step] = row
        for own, other in zip(fused.rows, plain.rows, strict=True):
            torch.testing.assert_close(own, other, **close)
        for history in ("live", "ended"):
            assert torch.equal(getattr(fused, history), getattr(plain, history))
        assert torch.equal(fused.came_from[living], row[living])
        assert torch.equal(fused.last[living], plain.last[living])
        counted = plain.live | plain.ended
        for history in ("tokens", "parents"):
            assert torch.equal(getattr(fused, history)[counted], getattr(plain, history)[counted])
        exact = {"rtol": 0, "atol": 0} if scores is None else close
        torch.testing.assert_close(fused.log_probs, plain.log_probs, equal_nan=True, **exact)
        assert int(fused.reached) == (step + 1 if bool(living.any()) else reached)
        reached = int(fused.reached)
    assert fused._fused is not None


def draw(step, rows, words):
    """Log-probabilities of which the end has more and more."""
    noise = 3 * torch.randn(rows, words, generator=torch.Generator().manual_seed(7 * step + words))
    noise[:, END] += step / 2
    return noise.log_softmax(dim=1)


@options
@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_the_kernels_choose_as_the_equations_do(name, constraints, emulated_beam):
    compare(name, CONSTRAINTS[constraints], 2, 7, "cpu", draw)


def test_a_vocabulary_may_be_longer_than_a_block_and_shorter_than_a_beam(emulated_beam):
    compare("eager", CONSTRAINTS["some"], 2, 150, "cpu", draw)
    compare("eager", [], 2, 3, "cpu", draw)


@options
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("scores", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernels_compute_the_softmax(name, constraints, scores, emulated_beam):
    compare(name, CONSTRAINTS[constraints], 2, 7, "cpu", draw, scores)
    if not constraints:
        compare(name, CONSTRAINTS["some"], 2, 333, "cpu", draw, scores)


def test_a_token_that_is_barred_twice_is_counted_once(emulated_beam):
    barred = [no_token(0), minimum_length(3, END), no_token(0, END), minimum_length(2, 0)]
    for scores in (None, torch.float32):
        compare("bounded", barred, 2, 7, "cpu", draw, scores)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("width", [1, 5, 32])
def test_more_words_may_come_first_than_are_collected(width, normalise, emulated_beam):
    words = 1_500
    rising, spread = torch.arange(float(words)) / 100, torch.arange(float(words)) * 7 % 4
    rows = [torch.zeros(words), rising, -rising, spread, torch.full((words,), -torch.inf)]
    for row in rows[: len(rows) - normalise]:
        scores = row.expand(width, words).log_softmax(dim=1) if normalise else row.expand(width, words)
        search = begin(Beam(None, width), [], 1, "cpu")
        search._fused = search._fuse(scores)
        search._choose(scores.clone(), normalise)
        expected = scores[0].sort(descending=True, stable=True).indices[:width].sort().values
        assert torch.equal(search._fused._ids[0].long(), expected)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_what_cannot_follow_is_not_chosen(share, emulated_beam):
    def closed(step, rows, words):
        found = draw(step, rows, words)
        source = torch.Generator().manual_seed(step)
        found[torch.rand(rows, generator=source) < share * (step > 0)] = -torch.inf
        return found

    for constraints in CONSTRAINTS.values():
        compare("bounded", constraints, 2, 7, "cpu", closed)


@pytest.mark.parametrize("number", [math.nan, -math.nan])
def test_what_is_not_a_number_is_noted(number, emulated_beam):
    for unnormalised, found in ((False, [True, False, False]), (True, [True, True, True])):
        log_probs = draw(0, 6, 7)
        log_probs[0, 3] = number
        search = begin(Beam(END, 3), [], 2, "cpu")
        search._fused = search._fuse(log_probs)
        search._choose(log_probs, unnormalised)
        assert search.log_probs[0].isnan().tolist() == [*found, False, False, False]


def test_among_equals_the_smallest_ids_are_chosen(emulated_beam):
    search = begin(Beam(None, 3), [], 1, "cpu")
    log_probs = torch.tensor([[-2.0, -1.0, -2.0, -0.0, -2.0, 0.0]]).expand(3, 6).clone()
    search._fused = search._fuse(log_probs)
    search._choose(log_probs)
    assert search.tokens[0].tolist() == [3, 5, 1]


def test_rows_take_over_the_states_of_those_that_they_continue(emulated_beam):
    search = begin(Beam(END, 3), [], 2, "cpu")
    step = search._fuse(draw(0, 6, 7))
    search.came_from.copy_(torch.tensor([2, 0, 0, 3, 5, 3]))
    reached = [torch.randn(6, 5), torch.randn(6, 260), torch.randn(6, 3, 2).bfloat16(), torch.rand(6) > 0.5]
    state = [torch.zeros_like(part) for part in reached]
    for count in (4, 0, 2):
        assert step.follow(reached[:count], state[:count])
    assert int(search.rows.length) == 3
    for own, part in zip(state, reached, strict=True):
        assert torch.equal(own, part[search.came_from])
    shifted = torch.randn(31)[1:].view(6, 5)
    for others in ([reached[0].double()], [reached[0].T.contiguous().T], [shifted], [reached[0]] * 9):
        assert not step.follow(others, [state[0]] * len(others))
    assert int(search.rows.length) == 3


class Unlikeliest(FixedGreedy):
    """A fixed form of another package, which decides otherwise."""

    def decide(self, log_probs, rows):
        return append_fixed(rows, log_probs, log_probs.argmin(dim=1), self.end_id)


class WithKernels(Unlikeliest):
    """The same, which has kernels for it."""

    def fuse(self, search, log_probs):
        return search.tokens.fill_


def test_a_subclass_that_decides_otherwise_is_not_replaced_by_the_kernels(emulated_beam):
    search, log_probs = begin(Greedy(None), [], 1, "cpu", Unlikeliest), torch.tensor([[-1.0, -2.0, -9.0]])
    search._fused = search._fuse(log_probs)
    search._choose(log_probs)
    assert search.tokens[0].tolist() == [2]
    assert begin(Greedy(None), [], 1, "cpu", WithKernels)._fuse(log_probs) is not None


def test_kernels_that_do_not_compile_are_done_without(emulated_beam, monkeypatch):
    def fail(*given, **options):
        raise ThroughtimeError("a GPU kernel did not compile")

    monkeypatch.setattr(driver, "build", fail)
    search = begin(Beam(END, 3), [], 2, "cpu")
    with pytest.warns(ThroughtimeWarning):
        assert search._fuse(draw(0, 6, 7)) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@options
@pytest.mark.parametrize("words", [7, 100, 8_000, 36_001])
def test_a_real_gpu_agrees(name, words):
    assert not driver.unavailable(0)
    for constraints in CONSTRAINTS.values():
        for scores in (None, torch.float32, torch.bfloat16):
            compare(name, constraints, 64, words, "cuda", draw, scores)
