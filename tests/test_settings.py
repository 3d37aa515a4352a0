"""Settings read from files and from the command line, and shown again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from tests.refusals import refuses

from throughtime.config import Config, build_config
from throughtime.fit.config import TrainingConfig
from throughtime.settings import format_settings, read_assignments, read_settings


class PoemConfig(TrainingConfig):
    data: str = Field(description="a corpus of the catalogue, or a file")
    lr: float = Field(0.5, description="larger than usual")
    prompt: str = Field("rose: red # or not", description="a long sentence about what " + "comes first " * 9)
    tiny: float = 1e-7
    layers: tuple[int, ...] = (3, 4)
    extras: dict[str, int] = Field(default_factory=lambda: {"stanzas": 2})


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    yaml = "lr: 1e-3  # small\nclip: null\nepochs: 2\nbetas: [0.9, 0.99]\naverage: none\ncapture: false\n"
    toml = (
        'lr = 1e-3\nclip = "null"\nepochs = 2\nbetas = [0.9, 0.99]\naverage = "none"\ncapture = false # off\n'
    )
    values = {
        "lr": 1e-3,
        "clip": None,
        "epochs": 2,
        "betas": [0.9, 0.99],
        "average": "none",
        "capture": False,
    }
    assert read_settings(written(tmp_path, "a.yaml", yaml)) == values
    assert read_settings(written(tmp_path, "a.toml", toml)) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("2E5", 2e5),
        ("-1.5e+2", -150.0),
        (".5", 0.5),
        ("3.", 3.0),
        (".inf", float("inf")),
        ("012", 12),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("~", None),
        ("2020-01-01", "2020-01-01"),
        ("'1e-3'", "1e-3"),
        ("e5", "e5"),
    ],
)
def test_words_mean_what_yaml_1_2_says_in_files_and_assignments(
    tmp_path: Path, text: str, value: object
) -> None:
    for read in (
        read_settings(written(tmp_path, "a.yml", f"key: {text}\n"))["key"],
        read_assignments([f"key={text}"])["key"],
    ):
        assert read == value
        assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "facts"),
    [
        ("a.yaml", "a: 1\nb: 2\na: 3\n", ("a.yaml:3", "'a'")),
        ("a.yaml", "a: 1\nb: [2\nc: 3\n", ("a.yaml:3", "','", "']'")),
        ("a.yaml", "a: 1\nb: c: d\n", ("a.yaml:2",)),
        ("a.yaml", "- a\n- b\n", ("a.yaml:1",)),
        ("a.yaml", "just words\n", ("a.yaml:1",)),
        ("a.yaml", "a: 1\n2: 3\n", ("a.yaml:2", "2")),
        ("a.yaml", "a: 1\nb: !!python/name:os.system x\n", ("a.yaml:2",)),
        ("a.yaml", "a: 1\nb: !!float x\n", ("a.yaml:2",)),
        ("a.yaml", "a: 1\nb: {c: 1, c: 2}\n", ("a.yaml:2", "'c'")),
        ("a.yaml", "a: &x [*x]\n", ("a.yaml:1",)),
        ("a.yaml", "a: &x [1]\nb: *x\n", ("a.yaml:2",)),
        ("a.yaml", f"a: {'[' * 200}{'b, ' * 80_000}\n", ("a.yaml",)),
        (
            "a.yaml",
            "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
            ("a.yaml:2",),
        ),
        ("a.yaml", "a: 1\n---\nb: 2\n", ("a.yaml:2",)),
        ("a.yaml", "a: 1\nb: \x07\n", ("a.yaml:2",)),
        ("a.toml", "a = 1\na = 2\n", ("a.toml:2",)),
        ("a.toml", "a = 1\nb 2\n", ("a.toml:2", "'='")),
        ("a.toml", "a = 1\nb = [2,", ("a.toml:2",)),
        ("a.json", "{}", ("a.json", ".yaml", ".yml", ".toml")),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, facts: tuple[str, ...]
) -> None:
    with refuses(*facts):
        read_settings(written(tmp_path, name, text))


def test_a_file_that_is_missing_or_not_text_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with refuses("none.yaml"):
        read_settings(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes("a: é".encode("latin-1"))
    with refuses("latin.yaml", "UTF-8"):
        read_settings(tmp_path / "latin.yaml")
    with refuses("large.yaml", "256 kB"):
        read_settings(written(tmp_path, "large.yaml", "# nothing yet\n" * 20_000))
    assert read_settings(written(tmp_path, "a.yaml", "# nothing yet\n")) == {}


def test_assignments_split_at_the_first_equals_and_leave_odd_words_alone() -> None:
    words = [
        "data=a=b",
        "files=*.txt",
        "title=a: b #c",
        "betas=[1e-3, null]",
        "clip=",
        "epochs=1",
        "epochs=2",
    ]
    assert read_assignments(words) == {
        "data": "a=b",
        "files": "*.txt",
        "title": "a: b #c",
        "betas": [1e-3, None],
        "clip": None,
        "epochs": 2,
    }


@pytest.mark.parametrize("word", ["epochs", "=3", "betas=[1"])
def test_a_bad_assignment_names_the_parameter_and_the_word(word: str) -> None:
    with refuses("set", repr(word)):
        read_assignments([word])


@pytest.mark.parametrize("value", ["[" * 1_200 + "]" * 1_200, "9" * 4_400, "[" + "9" * 4_400 + "]"])
def test_what_is_past_all_bounds_is_refused_in_files_and_assignments(tmp_path: Path, value: str) -> None:
    with refuses("set", f"'{f'a={value}'[:80]}'..."):
        read_assignments([f"a={value}"])
    for name, text in (("a.yaml", f"a: {value}\n"), ("a.toml", f"a = {value}\n")):
        with refuses(name):
            read_settings(written(tmp_path, name, text))


@pytest.mark.parametrize(
    "given", [{}, {"clip": None, "optimizer": "sgd", "betas": [0.5, 0.25], "data": "1e3"}]
)
def test_what_is_shown_reads_back_as_the_same_configuration(tmp_path: Path, given: dict[str, Any]) -> None:
    path = written(tmp_path, "shown.yaml", format_settings(PoemConfig, given))
    values = {"data": "poems", **read_settings(path)}
    assert build_config(PoemConfig, values, "x") == PoemConfig(**{"data": "poems", **given})
    assert set(values) == set(PoemConfig.model_fields)


def test_the_whole_configuration_is_shown_with_its_comments_in_groups() -> None:
    text = format_settings(PoemConfig, {"epochs": 3})
    own, trainer = text.split("\n\n")
    assert own.startswith("# data: (required)")
    assert trainer.startswith("network: null ")
    # A setting with a new default stays among its own kind.
    assert "\nlr: 0.5 " in trainer
    assert "\nepochs: 3 " in trainer
    assert all(len(line) <= 80 for line in text.splitlines())
    column = own.splitlines()[0].rindex("# ")
    assert {line.index("#") for line in trainer.splitlines()} == {column}
    comments = " ".join(line.rpartition("# ")[2] for line in text.splitlines())
    for field in PoemConfig.model_fields.values():
        assert (field.description or "").strip() in comments


def test_a_wrong_value_is_not_shown() -> None:
    with refuses("settings", "'epoch'", "'epochs'"):
        format_settings(PoemConfig, {"epoch": 3})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


class AnythingConfig(Config):
    value: Any = None


@given(values)
def test_any_value_that_is_shown_reads_back(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(format_settings(AnythingConfig, {"value": value}).encode())
    assert read_settings(path) == {"value": value}


def test_settings_are_read_without_torch() -> None:
    import subprocess

    call = "throughtime.settings.read_assignments(['a=[1]'])"
    code = f"import sys, throughtime.settings; {call}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
