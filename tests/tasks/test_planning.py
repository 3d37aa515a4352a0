"""Planning a training of some minutes: what is measured, chosen and printed."""  # R112

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from tests.refusals import lacks, refuses

import throughtime as tt
from throughtime.fit import learner
from throughtime.fit.processes import Processes
from throughtime.fit.trainer import Trainer
from throughtime.gpu.cuda_graphs import WARM_UP
from throughtime.gpu.learner import RecordedLearner
from throughtime.ngram import lexicon
from throughtime.run import Training
from throughtime.tasks import TASKS, planning, text_config
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.compose.config import ComposeConfig
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.planning import Speed, measure_speed
from throughtime.tasks.translate import config
from throughtime.tasks.translate import model as predictor
from throughtime.tasks.translate import training as translating
from throughtime.tasks.translate.config import TranslateConfig

PAIRS = [(f"{a} {b} .", f"{b} {a} !") for a in ("one", "two", "three", "four") for b in ("x", "y", "z")] * 5
TINY = {"embedding_size": 8, "batch_size": 8, "valid_sentences": 4, "tokens": "space"}


@pytest.fixture
def speed(monkeypatch):
    """The number of epochs that the time allows, instead of a measurement."""

    def set_passes(passes):
        def measure(model, dataset, seconds, processes):
            return Speed(0.01, seconds / passes)

        monkeypatch.setattr(planning, "measure_speed", measure)

    return set_passes


@pytest.fixture
def training(tmp_path):
    def prepare(**settings):
        said = []
        settings = {**TINY, "data": PAIRS, **settings}
        return Training("translate", settings, tmp_path / "run", progress="none", say=said.append), said

    return prepare


@pytest.mark.parametrize(
    ("passes", "size", "dropout"), [(3, 256, (0.1, 0.1)), (20, 256, (0.2, 0.3)), (100, 512, (0.3, 0.4))]
)
def test_settings_follow_from_the_number_of_passes(passes, size, dropout):
    chosen = TranslateConfig(data="x").settings_for(passes)
    assert chosen.get("hidden_size", 256) == size
    assert (chosen["embedding_dropout"], chosen["output_dropout"]) == dropout


@pytest.fixture
def clock(monkeypatch):
    """Time in which an update takes 10 ms, as `speed` says, and all else as long as a test says."""
    clock, update = SimpleNamespace(now=0.0), Trainer.update
    clock.monotonic = lambda: clock.now

    def slow_update(trainer, group):
        update(trainer, group)
        clock.now += 0.01

    for module in ("run", "fit.run", "fit.trainer"):
        monkeypatch.setattr(f"throughtime.{module}.time", clock)
    monkeypatch.setattr(Trainer, "update", slow_update)
    return clock


def test_a_plan_is_made_said_and_stored(speed, clock, training, tmp_path, capsys):
    speed(20.0)
    run, _ = training(minutes=0.02, hidden_size=8, early_stopping=1000)
    run.progress = "lines"
    run.start()
    printed = capsys.readouterr().err.splitlines()
    [announced] = [line for line in printed if not lacks(line, "0.02 minutes", "0 s", "104", "10 ms")]
    assert printed.index(announced) == 1  # below the model
    [planned] = [line for line in run.notes if "embedding_dropout=0.2" in line]
    assert planned.count(TranslateConfig.REASONS["embedding_dropout"]) == 1
    assert "hidden_size" not in planned
    assert run.values["why"] == "0.02 minutes are over"
    model = tt.load(tmp_path / "run", task="translate")
    assert (model.config.hidden_size, model.config.output_dropout, model.config.epochs) == (8, 0.3, None)
    assert len(model.translate("one x .")) == 1


@pytest.mark.parametrize(("preparation", "updates"), [(0.0, 580), (5.0, 80), (5.9, None), (60.0, None)])
def test_all_preparation_counts_as_time(preparation, updates, speed, clock, training, monkeypatch, tmp_path):
    """Reading data comes before the speed is measured, and counting a shortlist after that."""
    speed(20.0)

    def wait(*_):
        clock.now += preparation

    monkeypatch.setattr(predictor, "MIN_VOCABULARY", 1)
    monkeypatch.setattr(lexicon, "build_shortlist", wait)
    run, _ = training(minutes=0.1, hidden_size=8, early_stopping=1000)
    if updates is None:
        with refuses("minutes", "0.1", f"{preparation:.1f} s"):
            run.start()
        assert not (tmp_path / "run").exists()
        return
    run.start()
    assert run.values["steps"] == pytest.approx(updates, abs=20)
    assert run.values["seconds"] == pytest.approx(6.0, abs=0.1)


def test_the_minutes_hold_the_figure_and_the_exit(speed, clock, training, monkeypatch):
    """A figure of 8 s is drawn twice before, and once after; twice as long is kept for the exit."""
    speed(20.0)

    def draw(*_, **__):
        clock.now += 8.0

    monkeypatch.setattr("throughtime.fit.run._draw", draw)
    run, _ = training(minutes=1.0, hidden_size=8, early_stopping=1000)
    run.start()
    assert run.values["seconds"] == pytest.approx(60.0 - 3 * 8.0, abs=1.0)
    assert clock.now == pytest.approx(60.0 - 2 * 8.0, abs=1.0)


@pytest.mark.parametrize(
    ("task", "device", "passes", "size"),
    [
        ("translate", "cpu", 30, None),
        ("translate", "cuda", 30, 512),
        ("translate", "cuda", 5, None),
        ("translate", "cpu", 100, 512),
        ("language", "cpu", 30, 384),
        ("language", "cuda", 30, 512),
        ("language", "cuda", 10, 384),
    ],
)
def test_a_gpu_with_time_for_many_epochs_gets_its_larger_model(task, device, passes, size):
    config_type = TASKS[task].part("predictor").config_type
    assert planning.choose_settings(config_type(data="x"), passes, 1e6, device).get("hidden_size") == size
    given = planning.choose_settings(config_type(data="x", hidden_size=64), passes, 1e6, device)
    assert "hidden_size" not in given


@pytest.mark.parametrize(
    ("given", "updates", "device", "expected"),
    [
        ({}, 100, "cpu", (16, 4e-3)),
        ({}, 500, "cpu", (32, 4e-3)),
        ({}, 100, "cuda", (64, 4e-3)),
        ({}, 1_000, "cpu", (64, 4e-3)),
        ({}, 10_000, "cpu", (64, 4e-3)),
        ({"lr": 0.1}, 100, "cpu", (16, 0.1)),
        ({"batch_size": 64}, 100, "cpu", (64, 4e-3)),
        ({"max_tokens": 1000}, 100, "cpu", (64, 4e-3)),
    ],
)
def test_few_updates_on_a_cpu_become_more(given, updates, device, expected):
    asked = TranslateConfig(data="x", **given)
    config = asked.model_copy(update=planning.choose_settings(asked, 1.0, updates, device))
    assert (config.batch_size, config.lr) == expected


def test_the_speed_of_smaller_batches_is_measured(monkeypatch, training):
    sizes = []

    def measure(model, dataset, seconds, processes):
        sizes.append(model.config.batch_size)
        return Speed(0.2, 20.0)

    monkeypatch.setattr(planning, "measure_speed", measure)
    settings = {key: value for key, value in TINY.items() if key != "batch_size"}
    run, _ = training(minutes=1.0, hidden_size=8)
    run.settings = {**settings, "data": PAIRS * 20, "minutes": 1.0, "hidden_size": 8}
    run.create()
    said = []
    options = {"processes": Processes(), "say": said.append}
    model, _ = planning.plan_training(run.model, run.asked, run.dataset, 60.0, **options)
    assert (sizes, model.config.batch_size) == ([64, 32], 32)
    assert "batch_size=32" in said[0]


def test_with_epochs_nothing_is_planned(speed, training):
    speed(1e9)
    run, _ = training(minutes=5, epochs=1, hidden_size=8)
    run.start()
    assert run.speed is None
    assert run.values["epochs"] == 1


def test_a_network_of_the_user_keeps_its_settings(speed, training):
    speed(100.0)
    run, _ = training(minutes=1.0)
    run.create()
    run.model.config = run.model.config.model_copy(update={"network": "custom"})
    said = []
    options = {"processes": Processes(), "say": said.append}
    model, _ = planning.plan_training(run.model, run.asked, run.dataset, 60.0, **options)
    assert model is run.model
    assert said == []


def test_measuring_leaves_the_first_weights(monkeypatch, training):
    monkeypatch.setattr(planning, "SECONDS", (0.05, 0.05))
    run, _ = training(minutes=1.0, hidden_size=8)
    run.create()
    before = {name: weight.clone() for name, weight in run.model.model.state_dict().items()}
    found = measure_speed(run.model, run.dataset, 10.0, Processes())
    assert found.per_update > 0
    steps = round(found.per_epoch / found.per_update)
    assert steps == len(run.model.build_objective(run.dataset).batches(0, 1))
    after = run.model.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_update_that_records_graphs_is_not_measured(monkeypatch, training):
    monkeypatch.setattr(planning, "SECONDS", (0.05, 0.05))
    monkeypatch.setattr(learner.Learner, "warm_up", RecordedLearner.warm_up)
    run, _ = training(minutes=1.0, hidden_size=8)
    run.create()
    done, update = [], planning.Trainer.update

    def record_third(trainer, group):
        update(trainer, group)
        done.append(group)
        time.sleep(1.0 if len(done) == WARM_UP else 0.0)

    monkeypatch.setattr(planning.Trainer, "update", record_third)
    assert measure_speed(run.model, run.dataset, 10.0, Processes()).per_update < 0.5


def test_what_takes_seconds_is_done_once_and_not_to_measure_the_speed(monkeypatch, training, tmp_path):
    counted, checked = [], []
    check = translating.warn_of_swapped_sides
    monkeypatch.setattr(translating, "warn_of_swapped_sides", lambda *of: checked.append(1) or check(*of))
    build = lexicon.build_shortlist
    monkeypatch.setattr(lexicon, "build_shortlist", lambda *of: counted.append(1) or build(*of))
    monkeypatch.setattr(predictor, "MIN_VOCABULARY", 1)
    run, _ = training(epochs=1, hidden_size=8)
    run.create()
    run.model.build_objective(run.dataset)
    assert not counted
    assert not checked
    run.start()
    assert len(counted) == len(checked) == 1
    assert tt.load(tmp_path / "run", task="translate").shortlist is not None


@pytest.fixture
def gpu(monkeypatch):
    """torch says that there is one; models are created before they are moved to it."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 1}, (512, 3e-3)),
        ({}, (512, 3e-3)),
        ({"lr": 0.1}, (512, 0.1)),
        ({"hidden_size": 8}, (8, 4e-3)),
        ({"device": "cpu"}, (256, 4e-3)),
        ({"minutes": 1.0}, (256, 4e-3)),  # the speed will be measured
        ({"minutes": 1.0, "epochs": 1}, (512, 3e-3)),
    ],
)
def test_defaults_follow_from_the_device(settings, expected, gpu, training):
    run, _ = training(**settings)
    run.create()
    assert (run.model.config.hidden_size, run.model.config.lr) == expected
    notes = [note for note in run.notes if "GPU" in note]
    assert len(notes) == (expected[0] == 512)
    assert all("hidden_size=512" in note for note in notes)


def test_a_network_of_the_user_has_the_same_settings_on_every_device(gpu, training):
    run, _ = training(epochs=1)
    config = TranslateConfig(data="x", network="custom")
    assert run._suit_device(config) is config


class Two(Processes):
    """The first of two processes; the other one's clock shows as much."""

    def sum(self, values, device):
        return [2 * value for value in values]


def test_processes_measure_the_batches_that_they_share(monkeypatch, training):
    monkeypatch.setattr(planning, "SECONDS", (0.05, 0.05))
    # There is no other process to exchange gradients with.
    monkeypatch.setattr(learner, "_loss_module", lambda objective, processes: learner._LossModule(objective))
    monkeypatch.setattr(Two, "all_agree", lambda processes, flag: flag)
    run, _ = training(minutes=1.0, hidden_size=8)
    run.create()
    rows = []
    update = planning.Trainer.update

    def note_rows(trainer, group):
        rows.append(group[0].batch.source.shape[1])
        update(trainer, group)

    monkeypatch.setattr(planning.Trainer, "update", note_rows)
    found = measure_speed(run.model, run.dataset, 10.0, Two(0, 2))
    assert max(rows) == TINY["batch_size"] // 2
    assert found.per_epoch > found.per_update > 0


def test_words_are_counted_once(monkeypatch):
    counted = []
    count = config.count_words
    monkeypatch.setattr(config, "count_words", lambda *of: counted.append(of[1:]) or count(*of))
    completed = TranslateConfig(data="x").complete(tt.open_dataset(PAIRS, kind="pairs"))
    assert (completed.epochs, completed.max_size) == (40, 1_000)
    assert counted == [()]
    TranslateConfig(data="x", minutes=1.0).complete(tt.open_dataset(PAIRS, kind="pairs"))
    assert counted == [(), (320_000,)]  # more do not change the vocabulary


@pytest.mark.parametrize("kind", [FillConfig, ClassifyConfig, ComposeConfig])
def test_no_more_words_are_counted_than_the_vocabulary_needs(kind, monkeypatch):
    counted, count = [], text_config.count_words
    monkeypatch.setattr(text_config, "count_words", lambda *of: counted.append(of[1:]) or count(*of))
    data = tt.open_dataset([("a few words", "yes")] * 30, kind="labelled")
    assert kind(data="x", tokens="bpe").complete(data).max_size == 1_000
    assert counted == [(320_000,)]


@pytest.mark.parametrize(("seconds", "chosen"), [((1.0, 0.9), 1), ((1.0, 0.8), 2), ((1.0, 0.8, 0.6), 3)])
def test_more_threads_are_used_only_if_they_are_much_faster(seconds, chosen, monkeypatch, training):
    monkeypatch.delenv("OMP_NUM_THREADS")
    speeds = dict(enumerate(seconds, start=1))
    monkeypatch.setattr(planning, "measure_speed", lambda *_: Speed(speeds[torch.get_num_threads()], 9.0))
    run, _ = training(minutes=1.0, hidden_size=8)
    run.create()
    with planning.restored_threads():
        found = planning.choose_threads(run.model, run.dataset, 10.0, Processes(), len(seconds))
        assert (found.per_update, found.single) == (speeds[chosen], 1.0)
        assert torch.get_num_threads() == chosen
    assert torch.get_num_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert planning.choose_threads(run.model, run.dataset, 10.0, Processes(), 2).per_update == 1.0
