"""Forecasts inside a page: series are read, scaled and forecast as Python does."""

from __future__ import annotations

import datetime
import json
import random
from statistics import NormalDist
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from tests.browser.answers import differences
from tests.browser.blocks import ask_model, rounded
from tests.browser.conftest import serving
from tests.graphs import untrained

READ = """
import { readPanel } from "page/engine/histories.js";
import { Problem } from "page/engine/problem.js";
import { formatTimes, stepName, timesAfter } from "page/engine/panel.js";
const names = { known: [], past: [] };
answer(data.map((body) => {
  try {
    const panel = readPanel(body, { names });
    return {
      notes: panel.notes,
      step: stepName(panel.frequency),
      series: panel.series.map((one) => ({
        unique_id: one.unique_id,
        y: one.y,
        ds: formatTimes(one.ds, panel.dated),
        after: formatTimes(timesAfter(panel, one, 3), panel.dated),
      })),
    };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { problem: error.message };
  }
}));
"""


def read_in_python(body):
    """The series of a request as the server reads them, or its refusal."""
    from throughtime.errors import InputError
    from throughtime.results import format_times
    from throughtime.serve.forecasting import ForecastRequest, build_panel
    from throughtime.serve.requests import RefusalError

    try:
        asked = ForecastRequest(**body)
        panel = build_panel(asked.series, asked.date_format)
        series = [
            {
                "unique_id": one.unique_id,
                "y": one.y.tolist(),
                "ds": format_times(one.ds),
                "after": format_times(panel.after(one, 3)),
            }
            for one in panel.series
        ]
    except (InputError, RefusalError) as error:
        return {"problem": str(error)}
    step = "position" if panel.frequency is None else str(panel.frequency)
    return {"notes": list(panel.notes), "step": step, "series": series}


STEPS = ("hour", "15 minutes", "day", "3 days", "week", "month", "quarter", "month end", "year", "seconds")
WRITTEN = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M",
    "%m/%d/%y", "%d %b %Y", "%B %d, %Y %H:%M", "%G-W%V-%u", "%Y-%m-%dT%H:%M:%S+02:00", "%Y-%m-%d %H:%M:%S.%f",
    "%d-%m-%Y %I:%M %p", "%Y",
)  # fmt: skip


def draw_times(dice, count, step):
    """Some dates with a step between them, some of them left out."""
    moment = datetime.datetime(dice.randint(1990, 2030), dice.randint(1, 12), dice.randint(1, 28))
    moment += datetime.timedelta(hours=dice.choice([0, 0, 0, 0, 0, 0, 0, 7, 13]))
    found = []
    for _ in range(count):
        if dice.random() > 0.05:
            found.append(moment)
        if step in ("month", "quarter", "year", "month end"):
            months = {"month": 1, "quarter": 3, "year": 12, "month end": 1}[step]
            if step == "month end":
                moment = moment.replace(day=1, hour=0) + datetime.timedelta(days=32)
                moment = moment.replace(day=1) + datetime.timedelta(days=31)
                moment = moment.replace(day=1) - datetime.timedelta(days=1)
            else:
                place = moment.month - 1 + months
                moment = moment.replace(year=moment.year + place // 12, month=place % 12 + 1)
        else:
            seconds = {"hour": 3600, "15 minutes": 900, "day": 86400, "3 days": 259200, "week": 604800}
            moment += datetime.timedelta(seconds=seconds.get(step, 7))
    if dice.random() < 0.1 and len(found) > 4:
        found[2] += datetime.timedelta(minutes=dice.choice([1, 700]))
    return found


def draw_requests(count, seed=1):
    """Requests with series that are written in many ways, some of them wrong."""
    dice = random.Random(seed)
    bodies = []
    while len(bodies) < count:
        series = []
        written, step, kind = dice.choice(WRITTEN), dice.choice(STEPS), dice.random()
        if "%H" not in written and dice.random() < 0.9:
            step = dice.choice(STEPS[2:-1])
        for number in range(dice.randint(1, 3)):
            size = dice.randint(1, 40)
            one = {"unique_id": f"it's {number}" if dice.random() < 0.1 else f"series {number}"}
            kind = dice.random() if dice.random() < 0.03 else kind
            if kind < 0.7:
                times = draw_times(dice, size, step) or [datetime.datetime(2020, 1, 1)]
                one["ds"] = [time.strftime(written) for time in times]
                if dice.random() < 0.02:
                    one["ds"][dice.randrange(len(times))] = dice.choice(
                        ["noon", "2020-02-30", "13/13/2020", ""]
                    )
            elif kind < 0.85:
                apart = dice.choice([1, 1, 5])
                one["ds"] = sorted(dice.sample(range(0, 4 * size * apart, apart), size))
            size = len(one.get("ds", range(size)))
            if dice.random() < 0.5 and "ds" in one:
                dice.shuffle(one["ds"])
            one["y"] = [None if dice.random() < 0.05 else round(dice.gauss(0, 10), 3) for _ in range(size)]
            series.append(one)
        body = {"series": series}
        if dice.random() < 0.2:
            body["date_format"] = dice.choice([written, "%d.%m.%Y", "%d.%m"])
        bodies.append(body)
    return bodies


def test_series_are_read_as_the_server_reads_them(node, inputs):
    # A page has fewer formats than strptime.
    bodies = [one for one in draw_requests(8 * inputs) if "%G" not in one.get("date_format", "")]
    found, expected = node(READ, bodies), [read_in_python(body) for body in bodies]
    told = [
        (line, body)
        for mine, theirs, body in zip(found, expected, bodies, strict=True)
        for line in differences(mine, theirs, 0.0)
    ]
    assert not told, told[0]
    assert sum("problem" not in one for one in expected) > 0.4 * len(bodies)
    assert sum(len(one.get("notes", ())) > 0 for one in expected) > 0.2 * len(bodies)


def test_normal_quantiles_are_exact(node):
    points = [2.0**-54, 1e-12, 1e-6, *np.linspace(0.001, 0.999, 999).tolist(), 1 - 1e-9, 1 - 2.0**-53]
    script = """
    import { normalQuantile } from "page/engine/distribution.js";
    answer(data.map(normalQuantile));
    """
    assert node(script, points) == pytest.approx([NormalDist().inv_cdf(one) for one in points], abs=1e-11)


HEADS = (
    {"kind": "gaussian"},
    {"kind": "student", "degrees": 3.7},
    {"kind": "quantiles", "probabilities": [0.1, 0.25, 0.5, 0.9], "centre": 2},
    {"kind": "quantiles", "probabilities": [0.5], "centre": 0},
)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head['kind']}-{len(head)}")
def test_distributions_are_read_as_python_does(node, head):
    from throughtime.runtime.forecast import OutputDistribution

    dice = np.random.default_rng(1)
    width = len(head.get("probabilities", [0, 0]))
    outputs = dice.normal(0, 2, (40, width)).astype(np.float32)
    chances = dice.random(40)
    known = head.get("probabilities", [0.01, 0.3, 0.5, 0.8])
    asked = sorted({*known, (known[0] + known[-1]) / 2})
    script = """
    import { openDistribution } from "page/engine/distribution.js";
    const head = openDistribution(data.head);
    const flat = Float32Array.from(data.outputs.flat());
    const read = (value) => data.outputs.map((row, place) => value(flat, place * row.length, place));
    answer({
      mean: read(head.mean),
      quantiles: data.asked.map((each) => read((all, at) => head.quantile(all, at, each))),
      drawn: read((all, at, place) => head.draw(all, at, data.chances[place])),
    });
    """
    given = {"head": head, "outputs": outputs.tolist(), "asked": asked, "chances": chances.tolist()}
    own = OutputDistribution(head)
    expected = {
        "mean": own.mean(outputs).tolist(),
        "quantiles": own.quantiles(outputs, asked).tolist(),
        "drawn": own.draw(outputs, chances).tolist(),
    }
    assert not differences(node(script, given), expected, 1e-5)


MODELS = {
    "recurrent-gaussian": {"model": "recurrent", "head": "gaussian", "normalise": "standard", "cell": "lstm"},
    "segment-quantiles": {"model": "segment", "segment": 5, "normalise": "last", "highway": "ridge"},
    "mlp-own": {"model": "mlp", "channels": "own"},
    "mlp-own-int8": {"model": "mlp", "channels": "own", "hidden_size": 32},
    "mlp-student": {"model": "mlp", "head": "student", "normalise": "mean"},
    "linear-quantiles": {"model": "linear", "scaling": "robust", "transform": "box-cox"},
    "mlp-log": {"model": "mlp", "head": "gaussian", "transform": "log"},
    "linear-recursive": {"model": "linear", "strategy": "recursive", "head": "point", "normalise": "mean"},
    "mlp-recursive": {"model": "mlp", "strategy": "recursive", "paths": 30},
    "state-point": {"model": "recurrent", "strategy": "recursive", "head": "point", "warm_up": 4},
    "state-gaussian": {
        "model": "recurrent",
        "strategy": "recursive",
        "head": "gaussian",
        "paths": 40,
        "seed": 2**53 + 1,
    },
    "segment-int8": {"model": "segment", "segment": 5, "hidden_size": 32},
    "state-int8": {"model": "recurrent", "strategy": "recursive", "hidden_size": 32, "paths": 20},
    "state-student": {"model": "recurrent", "strategy": "recursive", "head": "student", "paths": 9},
}


def draw_series(dice, size, names):
    """Positive series, some with gaps, of known and of new names."""
    series = []
    for name in names:
        times = np.arange(size + dice.integers(0, 9)) / dice.uniform(2, 6)
        y = np.exp(
            np.sin(times) * dice.uniform(0.1, 1) + dice.normal(0, 0.2, len(times)) + dice.uniform(0, 2)
        )
        missing = dice.random(len(y)) < dice.choice([0, 0.1])
        series.append(
            {"unique_id": name, "y": [None if gap else float(v) for gap, v in zip(missing, y, strict=True)]}
        )
    return series


NAMES = ("10", "9")
"""Names of series that objects of JavaScript put into another order."""


def draw_forecasts(dice, count, farthest, levels):
    """Bodies of requests for one series or several."""
    for _ in range(count):
        names = dice.permutation([*NAMES, "new", "other"])[: dice.integers(1, 4)].tolist()
        body = {"series": draw_series(dice, int(dice.integers(24, 60)), names)}
        if dice.random() < 0.8:
            body["h"] = int(dice.integers(1, farthest + 1))
        if levels and dice.random() < 0.8:
            body["level"] = dice.choice([50, 80, 90, 95], dice.integers(1, 4), replace=False).tolist()
        yield body


def answer_in_python(runner, body):
    """The forecasts of an exported model in the server's words."""
    from throughtime.runtime.forecast import ends

    values = {one["unique_id"]: [np.nan if v is None else v for v in one["y"]] for one in body["series"]}
    levels = sorted(body.get("level", ()))
    return [
        {
            "unique_id": one.unique_id,
            "mean": one.mean.tolist(),
            "intervals": {
                f"{level:g}": {
                    name: one.quantiles[end].tolist()
                    for name, end in zip(("lo", "hi"), ends(level), strict=True)
                }
                for level in levels
            },
        }
        for one in runner.forecast(values, h=body.get("h"), level=levels)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_forecasts_are_those_of_the_python_runner(node, tmp_path, inputs, name):
    import throughtime as tt
    from throughtime import runtime
    from throughtime.api import export

    settings = MODELS[name]
    run = untrained.forecaster(tmp_path, lift=9.0, names=NAMES, **settings)
    model, weights = tt.load(run, device="cpu"), "int8" if name.endswith("int8") else "float32"
    if weights == "int8":
        runner = rounded(model, weights, tmp_path / "rounded")
    else:
        export(run, tmp_path / "exported")
        runner = runtime.load(tmp_path / "exported")
    recursive, point = settings.get("strategy") == "recursive", settings.get("head") == "point"
    dice = np.random.default_rng(len(name))
    bodies = list(draw_forecasts(dice, max(5, inputs // 5), 14 if recursive else 6, not point))
    found = ask_model(node, model, [("forecast", body) for body in bodies], weights)
    for body, mine in zip(bodies, found, strict=True):
        expected = {"model": "model", "forecasts": answer_in_python(runner, body)}
        assert not differences(mine, expected, 1e-3, absent=("ds", "notes"))
        first = len(body["series"][0]["y"])
        assert mine["forecasts"][0]["ds"][0] == str(first)
        gaps = sum(None in one["y"] for one in body["series"])
        assert len(mine["notes"]) == gaps


def save_dated(folder, **settings):
    """A forecaster of two series of days, with its first weights."""
    data = folder / "days.csv"
    days = [datetime.date(2023, 1, 1) + datetime.timedelta(number) for number in range(300)]
    rows = [
        f"{name},{day},{size * (4 + np.sin(number / 4) + number % 7 / 5 + number % 11 / 9):.4f}\n"
        for name, size in (("north", 1), ("south", 9))
        for number, day in enumerate(days)
    ]
    data.write_text("unique_id,ds,y\n" + "".join(rows))
    given = {"lookback": 21, "horizon": 7, "hidden_size": 12, "device": "cpu"}
    return untrained.saved(folder, "forecast", data, **given, **settings)


def draw_dated(dice, count, known):
    """Bodies of requests with days, of which some are missing, and levels; few have a new series."""
    for _ in range(count):
        names = ["north", "south", *(["new"] if dice.random() < 0.2 or not known else [])]
        series = draw_series(dice, 30, dice.permutation(names)[: dice.integers(1, 4)].tolist())
        for one in series:
            first = datetime.date(2024, 2, 20) + datetime.timedelta(int(dice.integers(400)))
            kept = [number for number in range(len(one["y"])) if number < 3 or dice.random() > 0.05]
            one["ds"] = [str(first + datetime.timedelta(number)) for number in kept]
            one["y"] = [one["y"][number] for number in kept]
        body = {"series": series, "h": int(dice.integers(1, 8))}
        if dice.random() < 0.8:
            body["level"] = dice.choice([50, 60, 80], dice.integers(1, 3), replace=False).tolist()
        yield body


def ask_server(address, path, bodies):
    """What a server answers to each body; `{"problem": sentence}` where it refuses."""
    found = []
    for body in bodies:
        asked = Request(f"{address}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urlopen(asked, timeout=60) as response:
                found.append(json.load(response))
        except HTTPError as error:
            found.append({"problem": json.load(error)["error"]})
    return found


DATED = {
    "calendar": ({"model": "recurrent", "calendar": True}, None),
    "calendar, recursive": (
        {"model": "linear", "strategy": "recursive", "head": "point", "calendar": True},
        "scaled",
    ),
    "absolute": ({"model": "mlp", "head": "point", "transform": "log"}, "absolute"),
    "quantiles": ({"model": "mlp", "intervals": "conformal"}, "quantiles"),
    "none": ({"model": "mlp", "head": "point"}, None),
}


@pytest.mark.parametrize("name", DATED)
def test_dated_series_are_forecast_as_by_the_server(node, tmp_path, inputs, name):
    import throughtime as tt
    from throughtime.serve.models import Models

    settings, intervals = DATED[name]
    run = save_dated(tmp_path, **settings)
    if intervals is not None:
        tt.load(run, device="cpu").save_intervals(level=[50, 80], intervals=intervals)
    model = tt.load(run, device="cpu")
    bodies = list(draw_dated(np.random.default_rng(9), max(10, inputs // 5), intervals))
    hours = [str(datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number)) for number in range(30)]
    bodies += [
        {"series": [{"y": [1.5] * 30}]},
        {"series": [{"y": [1.5] * 30, "ds": hours}]},
        {"series": [{"y": [1.5] * 5, "ds": hours[:1] + [f"2024-01-0{day}" for day in range(2, 6)]}]},
        {**bodies[0], "h": 8},
        {**bodies[0], "level": [99]},
        {**bodies[0], "level": [0.8]},
        {"series": bodies[0]["series"], "h": 2},
    ]
    with serving(Models.open([run], "cpu")) as address:
        expected = ask_server(address, "forecast", bodies)
        (history,) = ask_server(address, "inspect/history", [{"rows": 200}])
    *found, rows = ask_model(
        node, model, [*(("forecast", body) for body in bodies), ("inspect/history", {"rows": 200})]
    )
    assert not differences(rows, history, 0.0, absent=("model",))
    for body, mine, theirs in zip(bodies, found, expected, strict=True):
        if "problem" in theirs:
            assert "problem" in mine, (body, theirs)
            assert mine["problem"].split(":")[0] == theirs["problem"].replace(run.name, "model").split(":")[0]
        else:
            assert not differences(mine, theirs, 1e-3, absent=("model",)), body
    assert sum("problem" not in one for one in found) >= (1 if name == "none" else 8)


def test_columns_are_read_as_by_the_python_runner(node, tmp_path):
    import throughtime as tt
    from throughtime import runtime
    from throughtime.api import export
    from throughtime.runtime.forecast import History

    run = untrained.forecaster(tmp_path, model="recurrent", known=["sale"], past=["heat"], helped=True)
    export(run, tmp_path / "exported")
    times = np.arange(46.0)
    known, past, y = np.cos(times)[:, None], times[:40, None] % 7, np.sin(times[:40] / 3)
    given = {"unique_id": "north", "y": y.tolist(), "known": known.tolist(), "past": past.tolist()}
    asked = [given, {**given, "known": (-known).tolist()}, {**given, "past": None}, {**given, "known": [[1]]}]
    found = ask_model(node, tt.load(run, device="cpu"), [("forecast", {"series": [one]}) for one in asked])
    runner = runtime.load(tmp_path / "exported")
    for sign, mine in zip((1, -1), found, strict=False):
        expected = runner.forecast([History("north", y, sign * known, past)])[0].mean.tolist()
        assert mine["forecasts"][0]["mean"] == pytest.approx(expected, abs=1e-3)
    assert "heat" in found[2]["problem"]
    assert "known" in found[3]["problem"]


def test_the_last_rows_stay_out_of_a_file_if_asked(node, tmp_path):
    import throughtime as tt

    model = tt.load(untrained.forecaster(tmp_path), device="cpu")
    for sample in (True, False):
        (found,) = ask_model(node, model, [("inspect/history", {"rows": 3})], sample=sample)
        assert ("problem" in found) is not sample
    assert "paste" in found["problem"]


def test_a_page_reads_the_columns_of_a_table(opened, exported, tmp_path):
    run = untrained.forecaster(tmp_path, model="recurrent", known=["sale"], past=["heat"], helped=True)
    page = opened(exported(run))
    box = page.get_by_label("Series as CSV")
    page.wait_for_selector("#forecast svg.chart")
    lines = box.input_value().splitlines()
    assert lines[0] == "ds,y,sale,heat"
    assert [line.split(",")[1] == "" for line in lines[-7:]] == [False] + [True] * 6
    box.fill("\n".join(["y,sale", *(f"{number % 5},{number % 2}" for number in range(40))]))
    page.get_by_role("button", name="Forecast", exact=True).click()
    page.locator("#forecast .problem", has_text="heat").wait_for()


def test_a_file_without_data_says_that_its_series_is_made_up(opened, runs, tmp_path):
    from throughtime.api import export

    export(runs["forecast"], tmp_path / "bare.html", sample=False)
    page = opened(tmp_path / "bare.html")
    page.wait_for_selector("#forecast svg.chart")
    told = page.get_by_text("A made-up series; paste your own.")
    assert told.is_visible()
    assert not page.get_by_role("button", name="The model's own data").is_visible()
    rows = "".join(f"{13000 + 90 * (step % 7)}\n" for step in range(40))
    page.locator("#forecast textarea").fill(f"y\n{rows}")
    page.locator("#forecast button.main").click()
    page.locator("#forecast svg text", has_text="13,200").wait_for()
    assert not told.is_visible()


def test_numbers_are_written_without_powers(node):
    script = """
    import { decimal, short } from "page/dom.js";
    answer([...data.map((value) => short(value)), decimal(1234567.891, 1), decimal(-0.001, 2)]);
    """
    told = node(script, [1.5, -12345.6, 0.000213, -1.2e-4, None, 0])
    assert told == ["1.50", "−12,346", "0.00021", "−0.00012", "–", "0.00", "1,234,567.9", "0.00"]
