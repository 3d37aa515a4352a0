"""The series of benchmarks/defaults.py: those that statsmodels, pmdarima and aeon bundle, and simulated ones.

Runs in the peers' environment and imports nothing of ours: `python -m benchmarks.defaults_series FOLDER HELD
SEED`. A set is a folder: train.csv, test.csv and, for forecasts, about.json with the season and what is known
of the truth.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Series(NamedTuple):
    """Values whose last `horizon` are to be forecast."""

    values: np.ndarray
    season: int
    horizon: int
    held_out: bool = False
    frequency: str = ""  # of the dates; by default rows are numbered
    truth: tuple[np.ndarray, np.ndarray] | None = None  # means and standard deviations of the horizon


def bundled() -> dict[str, Series]:
    """The series that the packages bundle."""
    import pmdarima.datasets as pm
    from aeon import datasets as aeon
    from statsmodels import datasets as sm

    def load(name: str) -> Any:
        return getattr(sm, name).load_pandas().data

    macro, elnino = load("macrodata"), load("elnino").drop(columns="YEAR").to_numpy().ravel()
    co2 = load("co2")["co2"].resample("MS").mean().interpolate().to_numpy()
    wine, danish, change = pm.load_wineind(), load("danish_data"), aeon.load_uschange()[0]
    quarterly = {
        "danish-money": danish["lrm"],
        "danish-income": danish["lry"],
        "real-invest": macro["realinv"],
    }
    return {
        "passengers": Series(pm.load_airpassengers(), 12, 12, frequency="MS"),
        "beer": Series(pm.load_ausbeer(), 4, 8, frequency="QS"),
        "residents": Series(pm.load_austres(), 4, 8, frequency="QS"),
        "wine": Series(wine, 12, 12, frequency="MS"),
        "wine-27": Series(wine[:39], 12, 12, frequency="MS"),
        "wool": Series(pm.load_woolyrnq(), 4, 8, frequency="QS"),
        "lynx": Series(pm.load_lynx(), 1, 10, frequency="YS"),
        "heartrate": Series(pm.load_heartrate(), 1, 10),
        "nile": Series(load("nile")["volume"], 1, 10, frequency="YS"),
        "copper": Series(load("copper")["COPPERPRICE"], 1, 5, frequency="YS"),
        "gdp": Series(macro["realgdp"], 4, 8, frequency="QS"),
        "unemployed": Series(macro["unemp"], 4, 8, frequency="QS"),
        "elnino": Series(elnino[-240:], 12, 12, frequency="MS"),
        "sunspots": Series(load("sunspots")["SUNACTIVITY"], 1, 11, True),
        "inflation": Series(load("interest_inflation")["Dp"], 4, 8, True, "QS"),
        "interest": Series(load("interest_inflation")["R"], 4, 8, True, "QS"),
        "co2": Series(co2[-120:], 12, 12, True, "MS"),
        "shampoo": Series(np.ravel(aeon.load_shampoo_sales()), 12, 8, True, "MS"),
        "load": Series(pm.load_taylor()[-305:], 48, 24, True, "30min"),
        "consumption": Series(np.ravel(change)[:187], 4, 8, True, "QS"),
        **{name: Series(values, 4, 8, True, "QS") for name, values in quarterly.items()},
    }


def simulated(seed: int) -> dict[str, Series]:
    """Series whose truth is known: the mean and the deviation of each value to come."""
    draws, t, h = np.random.default_rng(seed), np.arange(132), 12
    noise, ahead = draws.normal(size=132), np.arange(1, h + 1)
    months = 30 * np.sin(2 * np.pi * t / 12) + 12 * np.cos(4 * np.pi * t / 12)
    walk = 100 + np.cumsum(noise)
    rising, season = 50 + 2.5 * t, 200 + 0.8 * t + months
    demand = np.where(draws.random(132) < 0.25, draws.poisson(4, 132) + 1, 0).astype(float)
    shifted = np.where(t < 90, 20.0, 60.0)
    spoiled = 10 + noise
    spoiled[132 - h - 100] = 1e6
    flat = np.ones(h)
    mean, square = 0.25 * 5, 0.25 * (4 + 25)
    return {
        "sim-rising": Series(rising + 5 * noise, 1, h, truth=(rising[-h:], 5 * flat)),
        "sim-walk": Series(walk, 1, h, truth=(walk[-h - 1] * flat, np.sqrt(ahead))),
        "sim-season": Series(season + 6 * noise, 12, h, frequency="MS", truth=(season[-h:], 6 * flat)),
        "sim-demand": Series(demand, 1, h, truth=(mean * flat, np.sqrt(square - mean**2) * flat)),
        "sim-shift": Series(shifted + 4 * noise, 1, h, truth=(60 * flat, 4 * flat)),
        "sim-outlier": Series(spoiled, 1, h, truth=(10 * flat, flat)),
    }


def write_forecasts(folder: Path, held_out: bool, seed: int) -> None:
    """Write the sets; a seed above 0 also moves each origin back by so many half horizons."""
    for name, series in {**bundled(), **simulated(seed)}.items():
        if series.held_out != held_out:
            continue
        values = np.asarray(series.values, dtype=float)
        if not series.truth:
            values = values[: len(values) - seed * (series.horizon // 2)]
        times: Sequence[Any] = range(len(values))
        if series.frequency:
            times = [
                str(day) for day in pd.date_range("1960-01-01", periods=len(values), freq=series.frequency)
            ]
        place = folder / "forecast" / name
        place.mkdir(parents=True, exist_ok=True)
        rows = list(zip(times, values.round(6), strict=True))
        for split, some in (("train", rows[: -series.horizon]), ("test", rows[-series.horizon :])):
            write_table(place / f"{split}.csv", ("ds", "y"), some)
        truth = [part.tolist() for part in series.truth] if series.truth else None
        about = {"season": series.season, "horizon": series.horizon, "truth": truth}
        (place / "about.json").write_text(json.dumps(about))


def write_table(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


def load_vectors(name: str, split: str) -> tuple[list[np.ndarray], list[str]]:
    """Series of one label each, [channels, steps], of aeon's folder or of scikit-learn's digits."""
    if name == "digits":
        from sklearn.datasets import load_digits

        data = load_digits()
        some = slice(0, 600) if split == "train" else slice(600, 1200)
        return list(data.images[some].transpose(0, 2, 1)), [f"d{label}" for label in data.target[some]]
    from aeon import datasets
    from aeon.datasets import load_from_ts_file

    folder = Path(datasets.__file__).parent / "data" / name
    series, labels = load_from_ts_file(str(folder / f"{name}_{split.upper()}.ts"))
    return list(series), [f"c{label}" for label in labels]


VECTORS = {
    False: ("ArrowHead", "BasicMotions", "GunPoint", "JapaneseVowels", "digits"),
    True: ("ACSF1", "ItalyPowerDemand", "OSULeaf", "PickupGestureWiimoteZ"),
}


def write_vectors(folder: Path, held_out: bool) -> None:
    """Write the sets as long tables: a row is a step of a series."""
    for name in VECTORS[held_out]:
        place = folder / "vectors" / name
        place.mkdir(parents=True, exist_ok=True)
        for split in ("train", "test"):
            series, labels = load_vectors(name, split)
            head = ["id", "step", *(f"x{channel}" for channel in range(len(series[0]))), "label"]
            rows = (
                (f"s{number}", step, *map(float, row), labels[number])
                for number, one in enumerate(series)
                for step, row in enumerate(np.asarray(one).T)
            )
            write_table(place / f"{split}.csv", head, rows)


if __name__ == "__main__":
    target, held, number = Path(sys.argv[1]), sys.argv[2] == "1", int(sys.argv[3])
    write_forecasts(target, held, number)
    write_vectors(target, held)
