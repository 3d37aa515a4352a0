"""Small, untrained models of every task in folders, to be damaged."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.tiny import save_untrained


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a model of each task."""
    return save_untrained(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def model_folder(saved, tmp_path):
    """Copy the folder of a task's model, to be changed."""

    def copy(task):
        shutil.copytree(saved[task], tmp_path / task)
        return tmp_path / task

    return copy


def change_config(folder, **settings):
    """Change settings in a model folder."""
    path = folder / "config.json"
    values = json.loads(path.read_text())
    values["config"] |= settings
    path.write_text(json.dumps(values))
    return folder
