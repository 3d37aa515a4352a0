"""Sequences of vectors: what is read, what is learned and what comes out, in every form of the data: R121"""

from __future__ import annotations

import numpy as np
import pytest

import throughtime as tt
import throughtime.runtime
from throughtime.data.datasets import describe_data, open_dataset
from throughtime.runtime.vectors import MAX_FRAMES, VectorCodec

SMALL = {"embedding_size": 8, "hidden_size": 8, "epochs": 6, "lr": 0.02, "device": "cpu", "quiet": True}
SHAPES = {
    "circle": lambda u: (np.cos(u), np.sin(u)),
    "eight": lambda u: (np.cos(u), np.sin(2 * u)),
}


def draw(count, seed=0, noise=0.1):
    """Pen strokes of different lengths, and what they show."""
    dice, strokes = np.random.default_rng(seed), []
    for number in range(count):
        name = list(SHAPES)[number % 2]
        u = np.linspace(0, 6.2, dice.integers(12, 30))
        strokes.append((np.stack(SHAPES[name](u), 1) + noise * dice.standard_normal((len(u), 2)), name))
    return strokes


def write_table(path, strokes, order=None, cell="{:.6f}".format):
    lines = [
        f"s{number},{step},{cell(x)},{cell(y)},{name}"
        for number, (values, name) in enumerate(strokes)
        for step, (x, y) in enumerate(values)
    ]
    lines = lines if order is None else [lines[row] for row in order(len(lines))]
    path.write_text("\n".join(["id,t,x,y,label", *lines]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("vectors") / "strokes.csv", draw(60))


@pytest.fixture(scope="module")
def model(table):
    return tt.train("classify", table, **SMALL)


def test_a_long_table_is_learned_and_answered_for_alike_in_every_form(model, table, tmp_path):  # R121
    assert model.evaluate(draw(40, seed=1), split="all").values["accuracy"] > 0.9
    strokes = [values for values, _ in draw(5, seed=2)]
    answers = [answer.ranked for answer in model.classify(strokes)]
    texts = [";".join(f"{x!r},{y!r}" for x, y in values.tolist()) for values in strokes]
    assert [answer.ranked for answer in model.classify(texts)] == answers
    assert [answer.ranked for answer in model.classify([values.tolist() for values in strokes])] == answers
    assert model.classify(strokes[0])[0].ranked == model.classify(strokes[:1])[0].ranked
    model.save(tmp_path / "copy")
    assert [answer.ranked for answer in tt.load(tmp_path / "copy", device="cpu").classify(strokes)] == answers


def test_rows_are_sorted_by_time_and_columns_found_by_name(table, tmp_path):  # R121
    strokes = draw(6)
    shuffled = write_table(tmp_path / "shuffled.csv", strokes, np.random.default_rng(0).permutation)
    found = {one.name: one for one in open_dataset(shuffled, kind="labelled").records()}
    for number, (values, name) in enumerate(strokes):
        assert np.allclose(found[f"s{number}"].values, values, atol=1e-6)
        assert (found[f"s{number}"].label, found[f"s{number}"].features) == (name, ("x", "y"))


def test_arrays_of_every_form_are_the_same_sequences(tmp_path):  # R121
    values, labels = np.random.default_rng(0).random((6, 4, 3)), list("ababab")
    lengths = np.full(6, 4)
    np.savez(tmp_path / "whole.npz", X=values, y=labels)
    np.savez(tmp_path / "ragged.npz", X=values.reshape(24, 3), y=labels, lengths=lengths)
    np.savez(tmp_path / "steps.npz", X=values, y=np.repeat(labels, 4))
    forms = [
        (values, labels),
        {"X": values, "y": labels},
        list(zip(values, labels, strict=True)),
        list(zip(values.tolist(), labels, strict=True)),
        *(str(tmp_path / f"{name}.npz") for name in ("whole", "ragged", "steps")),
    ]
    for form in forms:
        records = [*open_dataset(form, kind="labelled").records()]
        assert np.array_equal([one.values for one in records], values)
        assert [one.label for one in records] == labels
    assert "a label for each step" in describe_data(
        open_dataset([(values[0], ["a", "a", "b", "b"])], kind="tags")
    )


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        (["a,0,1,2,up", "a,1,one,2,up"], 3, "one"),
        (["a,0,1,2,up", "a,1,1,2"], 3, "4 cells"),
        (["a,0,1,2,up", "a,1,1,2,"], 3, "label"),
        (["a,0,1,2,up", "a,1,inf,2,up"], 3, "inf"),
        (["a,0,1,2,up", ",1,1,2,up", "a,2,1,2,up"], 3, "name"),
        (["a,0,1,2,up", "a,0,1,2,up"], None, "time"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path, lines, line, says):  # R121
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(["id,t,x,y,label", *lines, *(f"b,{step},1,2,up" for step in range(9))]))
    with pytest.raises(tt.InputError, match=says) as refused:
        [*open_dataset(str(path), kind="labelled", id="id", label="label").records()]
    assert refused.value.line == line


def test_arrays_that_are_not_sequences_are_refused(model, tmp_path):  # R121
    np.savez(tmp_path / "objects.npz", X=np.array([[1, 2], [3]], dtype=object), y=["a", "b"])
    np.savez(tmp_path / "empty.npz", X=np.ones((3, 2)), y=["a", "b"], lengths=[3, 0])
    np.savez(tmp_path / "labels.npz", X=np.ones((3, 2, 1)), y=["a", "b"])
    for name in ("objects", "empty", "labels"):
        with pytest.raises(tt.InputError, match=f"{name}.npz"):
            [*open_dataset(str(tmp_path / f"{name}.npz")).records()]
    with pytest.raises(tt.InputError, match=r"item 2.*3 numbers"):
        open_dataset([(np.ones((4, 2)), "a"), (np.ones((4, 3)), "b")], kind="labelled")
    with pytest.raises(tt.InputError, match="item 1"):
        open_dataset([(np.ones((0, 2)), "a")], kind="labelled")
    with pytest.raises(tt.InputError, match="train tag"):
        tt.train("classify", [(np.ones((2, 2)), ["a", "b"])] * 9, quiet=True)
    for wrong in (np.ones((4, 3)), [["a", "b"]], "1,2\nx,y"):
        with pytest.raises(tt.InputError, match="sequences"):
            model.classify(wrong)


def test_gaps_are_filled_and_long_sequences_read_in_bounded_memory():  # R121
    codec = VectorCodec.of([np.array([[0.0], [2.0]])] * 3, ["x"])
    assert codec.encode([[0.0], [np.nan], [2.0], [np.nan]]).ravel().tolist() == [-1, 0, 1, 1]
    assert codec.encode([[np.nan]] * 3).tolist() == [[0.0]] * 3
    assert len(codec.encode(np.ones((100_000, 1)))) <= MAX_FRAMES
    long = VectorCodec.of([np.random.default_rng(0).random((1_000, 2))] * 3, ["x", "y"])
    assert long.encode(np.ones((1_000, 2))).shape == (250, 8)


def draw_steps(count, seed=0):
    """Sequences whose level is high in their second half, and a label for each step."""
    dice, sequences = np.random.default_rng(seed), []
    for _ in range(count):
        half = dice.integers(4, 12)
        high = np.repeat([0.0, 3.0], half)
        values = np.stack([high, 0 * high], 1) + 0.3 * dice.standard_normal((2 * half, 2))
        sequences.append((values, ["high" if level else "low" for level in high]))
    return sequences


@pytest.fixture(scope="module")
def tagger():
    options = {name: value for name, value in SMALL.items() if name != "embedding_size"}
    return tt.train("tag", draw_steps(60), word_size=8, num_layers=1, **options)


def test_each_step_has_a_label_also_in_long_sequences(tagger, tmp_path):  # R121
    assert tagger.evaluate(draw_steps(20, seed=1), split="all").values["accuracy"] > 0.9
    short, long = draw_steps(1, seed=2)[0][0], np.repeat([[0.0, 0.0], [3.0, 0.0]], 700, axis=0)
    (answer, other) = tagger.tag([short, long])
    assert answer.tags == tagger.tag(short)[0].tags
    assert len(answer.tags) == len(short)
    assert other.tags == ("low",) * 700 + ("high",) * 700
    tagger.save(tmp_path / "copy")
    assert tt.load(tmp_path / "copy", device="cpu").tag([short])[0] == answer
    with pytest.raises(tt.InputError, match="train classify"):
        tt.train("tag", [(np.ones((3, 1)), "a")] * 9, quiet=True)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_an_export_gives_the_same_answers(task, model, tagger, tmp_path):  # R121
    pytest.importorskip("onnxruntime")
    trained = {"classify": model, "tag": tagger}[task]
    trained.export(tmp_path / "onnx")
    exported = tt.runtime.load(tmp_path / "onnx")
    given = [np.random.default_rng(3).random((size, 2)) for size in (1, 30, 600)]
    for mine, theirs in zip(getattr(trained, task)(given), getattr(exported, task)(given), strict=True):
        if task == "tag":
            assert mine.tags == theirs.tags
        else:
            assert dict(theirs.ranked) == pytest.approx(dict(mine.ranked), abs=1e-5)
