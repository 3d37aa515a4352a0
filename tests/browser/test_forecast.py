"""Forecasts inside a page: series are read, scaled and forecast as Python does."""

from __future__ import annotations

import datetime
import random
from statistics import NormalDist

import numpy as np
import pytest
from tests.browser.answers import differences

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
    # The server refuses formats in its own words, and reads %G and %V only together; a page has fewer formats.
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
