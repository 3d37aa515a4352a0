"""No folder makes loading take more than twice its size and 500 MB of memory, or 10 seconds."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.adversary.conftest import change_config
from tests.refusals import refuses

import throughtime as tt
from throughtime.errors import InputError
from throughtime.tasks import TASKS

NETWORKS = [task for task in TASKS.own if task != "ngram"]
MEGABYTE = 1_000_000
LOAD = """
import json, pathlib, re, sys, time
import throughtime as tt
from throughtime.errors import InputError
for folder in sys.argv[1:]:
    began = time.process_time()
    try:
        tt.load(folder, device="cpu", trust_changed=True)
        problem = None
    except InputError as error:
        problem = str(error)
    # Of the processor, as other programs may keep it busy.
    took = time.process_time() - began
    # Not the peak of `resource`, which the process that started this one passes on.
    peak = re.search("VmHWM:[^0-9]*([0-9]+)", pathlib.Path("/proc/self/status").read_text())
    print(json.dumps([problem, took, int(peak[1]) * 1024]))
"""


def load_elsewhere(*folders):
    """Load folders in another process: the problem of each, its seconds, and the peak of memory in bytes."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("this system does not tell the peak of memory")
    words = [sys.executable, "-c", LOAD, *map(str, folders)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def refused(folder, match):
    with pytest.raises(InputError, match=match):
        tt.load(folder, device="cpu", trust_changed=True)


def sizes_of(task):
    """The settings of a task that are whole numbers and belong to the weights."""
    kind = TASKS[task].part("config")
    names = kind.fields_with_role("architecture")
    return [name for name in sorted(names) if "int" in str(kind.model_fields[name].annotation)]


@pytest.mark.parametrize("task", NETWORKS)
def test_no_setting_decides_what_loading_costs(task, model_folder):
    folder = model_folder(task)
    text = (folder / "config.json").read_text()
    settled = set()
    for name in sizes_of(task):
        for size in (10**5, 10**9, 10**19):
            (folder / "config.json").write_text(text)
            change_config(folder, **{name: size})
            try:
                tt.load(folder, device="cpu", trust_changed=True)
            except InputError:
                settled.add(name)
    assert {"num_layers"} < settled  # the others, such as min_freq, do not matter to loading


def test_hostile_settings_cost_neither_time_nor_memory(model_folder):
    """The same in a process whose peak of memory is measured, as torch's memory is not Python's."""
    folders = [
        change_config(model_folder("language"), embedding_size=10**6, hidden_size=10**6, num_layers=2),
        change_config(model_folder("translate"), num_layers=1_000),
        change_config(model_folder("forecast"), lookback=10**6, horizon=10**5),
    ]
    found = load_elsewhere(*folders)
    assert all(problem is not None and seconds < 10 for problem, seconds, _ in found)
    assert max(peak for *_, peak in found) < 500 * MEGABYTE
    assert "config.json" in found[1][0]  # its layers end where the weights do


@pytest.mark.slow
def test_a_large_model_takes_at_most_twice_its_size(model_folder):
    folder = change_config(model_folder("language"), embedding_size=300, hidden_size=300, counted="none")
    with (folder / "vocabulary.txt").open("a") as file:
        file.writelines(f"word{number}\n" for number in range(250_000))
    path = folder / "model.safetensors"
    rows = len((folder / "vocabulary.txt").read_text().splitlines())
    sizes = {"embedding.weight": (rows, 300), "head.bias": (rows,)}
    ones = {
        name: np.ones(sizes.get(name, (1200, 300)[: one.ndim]), np.float32)
        for name, one in load_file(path).items()
        if name != "share"
    }
    save_file(ones, path)
    ((problem, _, peak),) = load_elsewhere(folder)
    assert problem is None
    size = sum(one.stat().st_size for one in folder.iterdir())
    assert size > 300 * MEGABYTE  # where three times its size would be too much
    assert peak < 2 * size + 500 * MEGABYTE


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("vocabulary.txt", "\n".join(map(str, range(1_100_000))), r"vocabulary\.txt: .*too many"),
        ("config.json", "[" + "[]," * 1_400_000 + "[]]", r"config\.json: .*too many"),
        ("config.json", "[" * 100_000, r"config\.json"),
        ("config.json", '{"format": "throughtime", "format": "other"}', r"config\.json: .*'format' .*twice"),
        (
            "tokenizer_config.json",
            '{"tokenizer": "char", "options": ' + "[" * 2000,
            r"tokenizer_config\.json",
        ),
        ("generation_config.json", '{"a": 1, "a": 2}', r"generation_config\.json: .*'a'"),
    ],
    ids=["vocabulary", "many", "deep", "twice", "tokenizer", "generation"],
)
def test_texts_and_tables_have_bounds(name, text, match, model_folder):
    folder = model_folder("language")
    (folder / name).write_text(text)
    refused(folder, match)


@pytest.mark.parametrize("task", ["language", "ngram", "compose", "translate"])
def test_the_defaults_of_generation_have_bounds(task, model_folder):
    """The manifest does not cover them: they may change, but not to anything."""
    folder = model_folder(task)
    values = json.loads((folder / "generation_config.json").read_text())
    length = "max_source_tokens" if task == "translate" else "max_new_tokens"
    for key, value in (
        (length, "abc"),
        (length, None),
        (length, -5),
        ("temperature", "hot"),
        ("module", "os"),
    ):
        (folder / "generation_config.json").write_text(json.dumps({**values, key: value}))
        with refuses("generation_config.json", key):
            tt.load(folder, device="cpu")


def definition(vocabulary, normalizer=None):
    """A tokenizer.json."""
    parts = dict.fromkeys(("truncation", "padding", "post_processor", "decoder"))
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    rest = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    return json.dumps({**parts, **rest, "normalizer": normalizer})


def test_the_header_of_the_weights_is_not_believed(model_folder):
    folder = model_folder("language")
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    path.write_bytes(struct.pack("<Q", 4 << 30) + whole[8:])
    refused(folder, r"model\.safetensors: .*4,294,967,296")
    first, second = [name for name in header if name != "__metadata__"][:2]
    for change in (
        {"data_offsets": header[second]["data_offsets"]},
        {"shape": [0, 10**12]},
        {"shape": [2**62, 4]},
    ):
        changed = json.dumps({**header, first: {**header[first], **change}}).encode()
        path.write_bytes(struct.pack("<Q", len(changed)) + changed + whole[8 + length :])
        refused(folder, r"model\.safetensors")


@pytest.mark.parametrize("task", ["ngram", "language", "forecast"])
def test_the_number_of_tensors_has_a_bound(task, model_folder):
    path = model_folder(task) / "model.safetensors"
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    more = json.dumps(header | {f"empty{number}": empty for number in range(20_000)}).encode()
    path.write_bytes(struct.pack("<Q", len(more)) + more + whole[8 + length :])
    count = len(header) - ("__metadata__" in header) + 20_000
    refused(path.parent, rf"model\.safetensors: .*{count:,} tensors")


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_weights_in_another_precision_are_refused(dtype, model_folder):
    path = model_folder("classify") / "model.safetensors"
    weights = {name: tensor for name, tensor in load_file(path).items() if tensor.dtype == np.float32}
    save_file(load_file(path) | {name: tensor.astype(dtype) for name, tensor in weights.items()}, path)
    refused(path.parent, r"model\.safetensors: .*float32")


@pytest.mark.parametrize(
    "change",
    [
        {"keys.2": np.array([10**12])},
        {"keys.2": np.array([-1])},
        {"keys.2": np.array([3, 3])},
        {"count.2": np.ones(3, dtype=np.int64)},
        {"count.1": np.empty(0, dtype=np.int64)},
        {"keys.3": np.zeros((2, 2), dtype=np.int64)},
    ],
    ids=["far", "negative", "twice", "short", "none", "square"],
)
def test_counts_are_checked(change, model_folder):
    path = model_folder("ngram") / "model.safetensors"
    sized = {name.replace("keys", "count"): np.ones_like(keys) for name, keys in change.items()}
    save_file({**load_file(path), **sized, **change}, path)
    refused(path.parent, r"model\.safetensors: .*length [123]")


def test_files_that_are_none_are_refused(model_folder, tmp_path):
    folder = model_folder("language")
    words = folder / "vocabulary.txt"
    text = words.read_bytes()
    (tmp_path / "secret.txt").write_bytes(text)
    for build in (
        lambda: os.mkfifo(words),
        lambda: words.symlink_to(tmp_path / "secret.txt"),
        lambda: words.symlink_to("/dev/zero"),
        lambda: words.symlink_to("nowhere"),
        words.mkdir,
    ):
        words.unlink()
        build()
        refused(folder, r"vocabulary\.txt")
        if words.is_dir():
            words.rmdir()
            words.touch()
    words.unlink()
    (folder / "words.txt").write_bytes(text)
    words.symlink_to("words.txt")  # inside
    assert tt.load(folder, device="cpu", trust_changed=True)


@pytest.mark.parametrize("hidden", [".hidden", "checkpoints/hidden"])
def test_a_link_to_a_folder_that_is_not_checked_is_refused(hidden, model_folder, tmp_path):
    """Files in a hidden folder are not looked at, so a link into it could lead anywhere from there."""
    folder = model_folder("translate")
    (folder / hidden).parent.mkdir(exist_ok=True)
    (folder / "source").rename(folder / hidden)
    (folder / "source").symlink_to(hidden)
    words = folder / hidden / "vocabulary.txt"
    words.rename(tmp_path / "secret.txt")
    words.symlink_to(tmp_path / "secret.txt")
    refused(folder, r"source: .*link")


def test_holes_are_not_files(model_folder):
    folder = model_folder("language")
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(10**12)
    refused(folder, r"model\.safetensors: .*1,000,000,000,000")
