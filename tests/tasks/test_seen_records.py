"""What models say about the records that they were trained on: in all tasks, and wherever models go. R130."""

from __future__ import annotations

import shutil
import unicodedata

import pytest
from tests.refusals import lacks, refuses
from tests.tiny import SMALL, tiny_data, training

import throughtime as tt
from throughtime.cli.main import main
from throughtime.data.seen import FILE

LINES = [
    f"the {noun} is {what}"
    for shift in range(5)
    for noun, what in zip("abcdefghij", (3 * "pqrst")[shift:], strict=False)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model of each task, trained for an epoch, and its data."""
    folder = tmp_path_factory.mktemp("tasks")
    data = tiny_data(folder)
    for task, path in data.items():
        more = {} if task == "ngram" else {"epochs": 1}
        assert main(training(task, path, folder / task, **more)) == 0
    return folder, data


@pytest.mark.parametrize("task", [*SMALL, "ngram"])
def test_a_model_knows_how_many_test_records_it_was_trained_on(task, place):
    folder, data = place
    model = tt.load(folder / task, device="cpu")
    held_out, trained = (model.evaluate(split=split) for split in ("test", "train"))
    count = trained["records"]
    assert trained["trained_on"] == count
    assert held_out["trained_on"] <= 1 < held_out["records"]  # one may be a false positive
    assert not lacks(held_out.text, f"trained on {held_out['trained_on']}", held_out["records"])
    assert not lacks(trained.text, f"trained on {count:,}")
    assert (folder / task / FILE).stat().st_size <= max(128, 2 * count) + 300
    # The same records from a file of another name, in other case, with other spaces and accents.
    if task != "tag":
        copied = folder / f"copy-{task}{data[task].suffix}"
        text = data[task].read_text()
        if task not in ("classify", "compose", "forecast"):
            text = unicodedata.normalize("NFD", text.upper().replace(" ", "  "))
        copied.write_text(text)
        found = model.evaluate(str(copied), split="all")
        assert count <= found["trained_on"] < found["records"]


def test_the_filter_goes_with_the_model_and_is_covered_by_the_manifest(place, tmp_path, capsys):
    folder, _data = place
    model = tt.load(folder / "translate", device="cpu")
    model.save(tmp_path / "copy")
    assert (tmp_path / "copy" / FILE).read_bytes() == (folder / "translate" / FILE).read_bytes()
    assert main(["average", str(folder / "translate"), "--out", str(tmp_path / "mean")]) == 0
    assert tt.load(tmp_path / "mean", device="cpu").evaluate(split="train")["trained_on"] > 0
    (tmp_path / "copy" / FILE).write_bytes(b"changed")
    with refuses(FILE, "SHA-256"):
        tt.load(tmp_path / "copy", device="cpu")
    # A model without a filter does not know, and says nothing.
    shutil.copytree(
        folder / "translate", tmp_path / "old", ignore=shutil.ignore_patterns(FILE, "manifest.json")
    )
    with pytest.warns(UserWarning, match="manifest"):
        found = tt.load(tmp_path / "old", device="cpu").evaluate(split="train")
    assert found["trained_on"] is None
    assert "trained on" not in found.text


def test_a_model_knows_the_records_of_all_its_trainings(place, tmp_path):
    _folder, data = place
    first, second = (tmp_path / name for name in ("first.tsv", "second.tsv"))
    lines = data["translate"].read_text().splitlines(keepends=True)
    first.write_text("".join(lines[:90]))
    second.write_text("".join(lines[90:]))
    settings = {**SMALL["translate"], "epochs": 1, "device": "cpu", "progress": "none", "batch_size": 16}
    one = tt.train("translate", str(first), out=tmp_path / "one", **settings)
    more = {key: settings[key] for key in ("source", "target", "epochs", "device", "progress", "batch_size")}
    both = tt.train("translate", str(second), out=tmp_path / "two", init_from=tmp_path / "one", **more)
    assert one.evaluate(str(second), split="train")["trained_on"] == 0
    for path in (first, second):
        found = both.evaluate(str(path), split="train")
        assert found["trained_on"] == found["records"]
    # Resumed on data that changed, it knows those of before and of now.
    second.write_text("".join(lines[20:60]))
    tt.train(
        "translate",
        str(second),
        out=tmp_path / "two",
        resume=True,
        accept_changed_data=True,
        **(more | {"epochs": 2}),
    )
    resumed = tt.load(tmp_path / "two", device="cpu")
    assert len(resumed.seen.filters) == 3
    second.write_text("".join(lines[90:]))
    assert resumed.evaluate(str(second), split="train")["trained_on"] > 0


def test_models_together_know_the_records_of_each(place, tmp_path):
    folder, _data = place
    first, second = (
        tt.train("ngram", {"train": part, "test": LINES}, order=2, tokens="char", progress="none")
        for part in (LINES[:30], LINES[20:])
    )
    together = tt.interpolate(first, second, weights=[0.5, 0.5])
    counted = [model.evaluate(first.training_data)["trained_on"] for model in (first, second, together)]
    assert counted == [30, 30, 50]
    translator = tt.load(folder / "translate", device="cpu")
    alone, pair = (translator.evaluate(split="train", **more) for more in ({}, {"others": [translator]}))
    assert alone["trained_on"] == pair["trained_on"]


def test_compare_states_no_significance_for_a_model_that_knows_the_test(place, tmp_path, throughtime):
    _folder, data = place
    lines = data["translate"].read_text().splitlines(keepends=True)
    clean, leaky = (tmp_path / name for name in ("clean", "leaky"))
    test = tmp_path / "test.tsv"
    (tmp_path / "train.tsv").write_text("".join(lines[:100]))
    (tmp_path / "all.tsv").write_text("".join(lines))
    test.write_text("".join(lines[100:]))
    for name, out in (("train", clean), ("all", leaky)):
        words = training("translate", tmp_path / f"{name}.tsv", out, epochs=1)
        assert throughtime(*words).code == 0
    words = ("compare", clean, leaky, "--data", test, "--split", "all", "--samples", 20)
    ran = throughtime(*words, "--json")
    assert ran.code == 0, ran.err
    records, counts = ran.json["sentences"], ran.json["trained_on"]
    assert counts[str(clean)] == 0
    assert 0.8 * records < counts[str(leaky)] < records
    assert [one["p_value"] for one in ran.json["measures"]["bleu"]["systems"]] == [None, None]
    shown = throughtime(*words).out
    assert not lacks(shown, "trained on 0", f"trained on {counts[str(leaky)]}", "--anyway")
    asked = throughtime(*words, "--anyway", "--json").json
    assert asked["trained_on"] == counts
    assert asked["measures"]["bleu"]["systems"][1]["p_value"] is not None
    assert throughtime("compare", clean, clean.rename(tmp_path / "moved")).code == 2


def test_a_backtest_knows_training_rows_in_a_copy_of_the_data(place, tmp_path):
    folder, data = place
    model = tt.load(folder / "forecast", device="cpu")
    own = model.backtest(n_windows=20, step_size=2)
    copied = tmp_path / "other.csv"
    shutil.copy(data["forecast"], copied)
    found = model.backtest(str(copied), n_windows=20, step_size=2)
    assert found.trained_on == own.trained_on == found.to_dict()["windows_trained_on"] > 0
    rows = copied.read_text().splitlines()
    copied.write_text("\n".join([rows[0], *(f"{float(row) + 1}" for row in rows[1:])]))
    assert model.backtest(str(copied), n_windows=20, step_size=2).trained_on == 0
