"""The locked versions: complete, with hashes, and made for the requirements of today."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools.lock import EXTRAS, LEFT_OUT, ROOT, check, closure


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def test_the_files_fit_the_requirements(copy: Path) -> None:
    assert check(copy) == []
    text = (copy / "requirements" / "dev.txt").read_text()
    assert "://" not in text  # hashes are the same wherever the files come from
    assert not any(f"\n{name}==" in text for name in LEFT_OUT)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pyproject.toml", '"rich>=', '"rich>13,>='),
        ("constraints.txt", "ruff==", "ruff==0."),
        ("requirements/dev.txt", "numpy==", "numpy>="),
        ("requirements/demo.txt", "--hash=sha256:0", "--hash=md5:0"),
        ("requirements/demo.txt", "\nnumpy==", "\nnumpy==0."),
    ],
)
def test_what_was_changed_by_hand_is_found(copy: Path, file: str, old: str, new: str) -> None:
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    assert check(copy)


def test_what_another_system_needs_must_be_resolved_here() -> None:
    def package(*requirements: str) -> dict[str, dict[str, list[str]]]:
        return {"metadata": {"requires_dist": list(requirements)}}

    packages = {
        "throughtime": package("rich", 'pytest; extra == "dev"', 'winfast; sys_platform == "win32"'),
        "rich": package('old; python_version < "3.8"'),
        **dict.fromkeys(["pytest", "hatchling", "editables", "winfast"], package()),
    }
    assert closure(packages, ()) == {"throughtime", "rich", "winfast", "hatchling", "editables"}
    assert "pytest" in closure(packages, EXTRAS["dev"])
    del packages["winfast"]
    with pytest.raises(SystemExit, match=r"winfast .* win32"):
        closure(packages, ())
