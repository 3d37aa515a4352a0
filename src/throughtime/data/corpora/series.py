"""Numbers through time."""

from __future__ import annotations

from throughtime.data.corpora.corpus import Corpus, CorpusFile, Part

_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
_BROWNLEE = "https://raw.githubusercontent.com/jbrownlee/Datasets/master"

SERIES = Corpus(
    name="series",
    title="Five well-known series",
    description=(
        "ETTh1 (hourly loads and oil temperature of a transformer, 7 columns), airline passengers and "
        "sunspots by the month, minimum temperatures of Melbourne by the day, electricity demand of "
        "Victoria by the hour."
    ),
    licence="ETTh1 CC BY-ND 4.0; the others public",
    citation=(
        "ETTh1: Haoyi Zhou et al. Informer: Beyond Efficient Transformer for Long Sequence Time-Series "
        "Forecasting. AAAI 2021. Airline: George E. P. Box, Gwilym M. Jenkins. Time Series Analysis. 1976. "
        "Sunspots: SILSO, Royal Observatory of Belgium. Temperatures: Australian Bureau of Meteorology. "
        "Electricity: Rob J. Hyndman, tsibbledata, after the Australian Energy Market Operator."
    ),
    home="https://github.com/zhouhaoyi/ETDataset and https://github.com/jbrownlee/Datasets",
    parts=(
        Part("series", "series", {"all": ("ETTh1.csv",)}, "ETTh1"),
        Part("series", "series", {"all": ("airline-passengers.csv",)}, "airline-passengers"),
        Part("series", "series", {"all": ("monthly-sunspots.csv",)}, "monthly-sunspots"),
        Part("series", "series", {"all": ("daily-min-temperatures.csv",)}, "daily-min-temperatures"),
        Part("series", "series", {"all": ("elec_vic.csv",)}, "elec_vic"),
    ),
    files=(
        CorpusFile(
            "ETTh1.csv",
            "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
            2_589_657,
            f"{_ETT}/ETTh1.csv",
        ),
        CorpusFile(
            "airline-passengers.csv",
            "8cb51be753a718d9be5d76d7e238cc224792754676adc21faa59e954b0201621",
            2_180,
            f"{_BROWNLEE}/airline-passengers.csv",
        ),
        CorpusFile(
            "daily-min-temperatures.csv",
            "8b9de63ed6789492bf497625e7f9beb96a63d367b4b0a21754006f749fa5e5da",
            67_921,
            f"{_BROWNLEE}/daily-min-temperatures.csv",
        ),
        CorpusFile(
            "elec_vic.csv", "e772d225333d969376ce7429e518c6a3b6b69d620c73c6c4959b806d3e947a23", 121_517
        ),
        CorpusFile(
            "monthly-sunspots.csv",
            "c4ec8cc57d9f6fb6ecdb3e1f37f25b6f4badd5124c55931052b0cd2fc3bc71f3",
            45_039,
            f"{_BROWNLEE}/monthly-sunspots.csv",
        ),
    ),
    preparation=(
        "elec_vic.csv is the hourly demand that statsmodels keeps for its MSTL tests as "
        "statsmodels/tsa/tests/results/mstl_elec_vic.csv, see https://github.com/statsmodels/statsmodels"
    ),
)

CORPORA = (SERIES,)
