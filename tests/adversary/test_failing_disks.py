"""A disk that is full or fails: one sentence, exit code 1, and nothing that is half written."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("disk_driver.py")
LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char under[4096] = "/nowhere";
static int chosen, left;

void fail_from(const char *folder, int call, int first) {
    strncpy(under, folder, sizeof under - 1);
    chosen = call;
    left = first;
}

static int fails(int call, const char *path) {
    return call == chosen && !strncmp(path, under, strlen(under)) && --left < 0;
}

static int fails_at(int call, int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    return fails(call, path);
}

#define NEXT(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

ssize_t write(int file, const void *bytes, size_t size) {
    if (fails_at(0, file)) { errno = EIO; return -1; }
    return NEXT(ssize_t, "write", int, const void *, size_t)(file, bytes, size);
}

int fsync(int file) {
    if (fails_at(1, file)) { errno = EIO; return -1; }
    return NEXT(int, "fsync", int)(file);
}

int rename(const char *from, const char *to) {
    if (fails(2, to)) { errno = EIO; return -1; }
    return NEXT(int, "rename", const char *, const char *)(from, to);
}

int mkdir(const char *path, mode_t mode) {
    if (fails(3, path)) { errno = EIO; return -1; }
    return NEXT(int, "mkdir", const char *, mode_t)(path, mode);
}
"""


@pytest.fixture(scope="session")
def preload(tmp_path_factory):
    """A library in which writing to a folder fails with EIO."""
    if not (sys.platform == "linux" and shutil.which("cc")):
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("preload")
    (folder / "failing.c").write_text(LIBRARY)
    words = ["cc", "-shared", "-fPIC", "-o", str(folder / "failing.so"), str(folder / "failing.c"), "-ldl"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"cc does not compile a library here: {ran.stderr[:200]}")
    return folder / "failing.so"


def can_mount():
    """Whether a small file system can be mounted for one process."""
    if not shutil.which("unshare"):
        return False
    words = ["unshare", "-r", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def commands(tmp_path, model_folder):
    """A disk, and what is written there: words of the command line, with those that must work afterwards."""
    (tmp_path / "lines.txt").write_text("the cat sleeps\nthe dog sees a cat\n" * 100)
    disk, data = tmp_path / "disk", str(tmp_path / "lines.txt")
    small = ["--epochs", "2", "--hidden-size", "4", "--device", "cpu", "--out", str(disk / "run")]
    train = ["train", "language", "--data", data, *small]
    ngram = ["train", "ngram", "--data", data, "--out", str(disk / "run")]
    language, forecast = str(model_folder("language")), model_folder("forecast")
    return disk, {
        "training": (train, [*train, "--resume"]),
        "counting": (ngram, ngram),
        "page": (["export", language, "--out", str(disk / "page.html")],) * 2,
        "onnx": (["export", language, "--format", "onnx", "--out", str(disk / "onnx")],) * 2,
        "convert": (["data", "convert", data, "--out", str(disk / "new.tsv")],) * 2,
        "forecast": (["forecast", str(forecast), "--out", str(disk / "next.csv")],) * 2,
        "stats": (["stats", data, "--plot", str(disk / "zipf.png")],) * 2,
    }


def drive(attempts, words, **environment):
    ran = subprocess.run(
        [*words, sys.executable, str(DRIVER)],
        input=json.dumps(attempts),
        env={**os.environ, "RUST_BACKTRACE": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def judge(attempts, results):
    """Check each result; return how many attempts failed, as they should."""
    failed = 0
    for one, result in zip(attempts, results, strict=True):
        told = f"{one}: {result}"
        errors = [line for line in result["err"].splitlines() if line.startswith("error:")]
        if result["code"]:
            failed += 1
            assert result["code"] == 1, told
            assert len(errors) == 1, told
            assert "Traceback" not in result["err"], told
            assert "--debug" not in result["err"], told
            assert "disk/" in errors[0], told  # a file that the user named, or one in its folder
        assert not [path for path in result["left"] if ".part" in path], told
        if result["code"] and one["words"][0] != "train":
            assert result["left"] == [], told
        assert result["again"][0] == 0, told
    return failed


def drive_all(commands, choose_failures, words=(), **environment):
    """Run all commands with each of their failures, in one process; return how many attempts failed."""
    disk, written = commands
    optional = {"onnx": "onnxruntime", "stats": "matplotlib"}
    attempts = {
        name: [
            {"folder": str(disk), "words": first, "again": again, **each} for each in choose_failures(name)
        ]
        for name, (first, again) in written.items()
        if name not in optional or importlib.util.find_spec(optional[name])
    }
    results = iter(drive([each for row in attempts.values() for each in row], words, **environment))
    return {name: judge(row, itertools.islice(results, len(row))) for name, row in attempts.items()}


def test_a_failing_disk(preload, commands):
    def choose_failures(name):
        firsts = (0, 1, 12) if name == "training" else (0, 2)
        calls = itertools.product(("write", "fsync", "rename", "mkdir"), firsts)
        return [{"call": call, "first": first} for call, first in calls]

    failed = drive_all(commands, choose_failures, LD_PRELOAD=str(preload))
    assert min(failed.values()) >= 2, failed


@pytest.mark.skipif(not can_mount(), reason="needs unshare and the right to mount a file system")
def test_a_full_disk(commands):
    def choose_failures(name):
        return [
            {"kilobytes": size} for size in ((4, 8, 16, 40, 80) if name in ("training", "onnx") else (4, 8))
        ]

    failed = drive_all(commands, choose_failures, ["unshare", "-r", "-m"])
    assert min(failed.values()) >= 1, failed
