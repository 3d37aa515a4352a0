"""Texts written at once: each as if it were written alone, whoever joins or leaves meanwhile."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

import throughtime as tt
from throughtime.serve.requests import RefusalError
from throughtime.serve.writing import Draft, SamplingOptions, Stops, Writer
from throughtime.text.codec import Codec
from throughtime.text.framing import Framing


@pytest.fixture(scope="module")
def counted(runs):
    return tt.load(runs["counted"])


def draft(language, prompt, manner, whole):
    def hear(one):
        if one.over:
            whole.release()

    ids = language.framing.ids(prompt, end=False)
    return Draft(ids, manner, language.framing, hear)


def written(writer, language, asked):
    """The texts of prompts and manners that are handed over one by one."""
    whole = threading.Semaphore(0)
    drafts = [draft(language, prompt, manner, whole) for prompt, manner in asked]
    for one in drafts:
        writer.put([one])
    for _ in drafts:
        assert whole.acquire(timeout=10)
    return drafts


manners = st.builds(
    SamplingOptions,
    max_tokens=st.integers(1, 12),
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([None, 1, 3, 500]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    stop=st.sampled_from([(), (".",), ("cat", "og s")]),
    seed=st.integers(0, 99),
)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["", "the", "the cat", "a bird"]), manners), min_size=1, max_size=12)
)
def test_a_text_is_the_same_alone_and_among_others(counted, asked):
    together, alone = Writer("together", counted, most=5), Writer("alone", counted, most=1)
    try:
        found = written(together, counted, asked)
        expected = [written(alone, counted, [one])[0] for one in asked]
    finally:
        together.close()
        alone.close()
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.finish for one in found] == [one.finish for one in expected]
    for one, (prompt, manner) in zip(found, asked, strict=True):
        ids = counted.framing.ids(prompt, end=False)
        whole = counted.framing.text([*ids, *(token.token for token in one.tokens)])
        before = counted.framing.text(ids)
        cut = min(
            (place for stop in manner.stop if (place := whole[len(before) :].find(stop)) >= 0), default=None
        )
        assert one.text == whole[len(before) :][:cut]
        assert len(one.tokens) <= manner.max_tokens


def test_a_text_that_nobody_waits_for_is_given_up(runs):
    letters = tt.load(runs["letters"], "cpu")
    writer, enough = Writer("model", letters), threading.Event()
    endless = draft(letters, "the", SamplingOptions(max_tokens=10**9), threading.Semaphore(0))

    def hear(one):
        if len(one.tokens) == 5:
            one.left = True
            enough.set()

    endless.notify = hear
    writer.put([endless])
    assert enough.wait(10)
    writer.close()
    assert len(endless.tokens) == 5
    with pytest.raises(RefusalError) as caught:
        writer.put([endless])
    assert caught.value.status == 503


def test_a_failing_model_fails_its_texts_and_goes_on(counted, monkeypatch):
    writer, whole = Writer("model", counted), threading.Semaphore(0)
    ill = draft(counted, "the", SamplingOptions(), whole)
    step = counted.model.step

    def broken(last, state, memory):
        if (last == ill.prompt[-1]).any():
            raise RuntimeError("no such word")
        return step(last, state, memory)

    monkeypatch.setattr(counted.model, "step", broken)
    writer.put([ill])
    assert whole.acquire(timeout=10)
    assert str(ill.failure) == "no such word"
    assert written(writer, counted, [("the cat", SamplingOptions(temperature=0))])[0].text == " sleeps ."
    writer.close()


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=3), st.data())
def test_stops_cut_a_text_in_the_same_place_however_it_arrives(text, stops, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    watch = Stops(stops)
    said = ""
    for piece in pieces:
        said += watch.add(piece)
        if watch.stopped:
            break
    said += "" if watch.stopped else watch.rest()
    # Whole at once, the first stop to be complete wins; in pieces it may be another that begins earlier.
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    assert watch.stopped == bool(ends)
    assert text.startswith(said)
    assert not any(stop in said for stop in stops)


def test_characters_of_several_bytes_are_said_when_they_are_whole():
    codec = Codec.build(["the cat sleeps"], "bpe", max_size=270)  # other letters fall into bytes
    framing = Framing(codec, marked=False)
    for text in ("naïve café 你好 🙂", "the cat sleeps"):
        ids = codec.encode(text)
        spelt = Draft([], SamplingOptions(max_tokens=len(ids)), framing)
        for one in ids:
            spelt.take(one, 0.0, (), None)
            assert "\ufffd" not in spelt.text
        pieces = spelt.pieces
        assert spelt.text == codec.decode(ids)
        assert sum(map(bool, pieces)) > 1


def test_who_has_left_takes_no_place_in_the_queue(counted):
    writer = Writer("model", counted, most=1, queue=2)
    began, go_on = threading.Event(), threading.Event()

    def held_up(one):
        began.set()
        assert go_on.wait(10)

    ids = counted.framing.ids("the", end=False)
    try:
        writer.put([Draft(ids, SamplingOptions(max_tokens=1), counted.framing, held_up)])
        assert began.wait(10)
        whole = threading.Semaphore(0)
        gone = [draft(counted, "the", SamplingOptions(max_tokens=1), whole) for _ in range(2)]
        writer.put(gone)
        late = draft(counted, "the", SamplingOptions(max_tokens=1), whole)
        with refuses("model", error=RefusalError):
            writer.put([late])
        for one in gone:
            one.left = True
        assert writer.waiting == 0
        writer.put([late])
        assert writer.waiting == 1
        go_on.set()
        assert whole.acquire(timeout=10)
        assert late.over
        assert not any(one.over for one in gone)
    finally:
        go_on.set()
        writer.close()
