"""Small, untrained models of every task in folders, to be damaged."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.tiny import SMALL, tiny_data

from throughtime.data.datasets import open_dataset
from throughtime.tasks import TASKS


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a model of each task."""
    place = tmp_path_factory.mktemp("saved")
    found = {}
    for task, data in tiny_data(place).items():
        predictor = TASKS[task].part("predictor")
        settings = {"order": 3} if task == "ngram" else {**SMALL[task], "device": "cpu"}
        kind = {"kind": "series"} if task == "forecast" else {}
        config, dataset = predictor.config_type(data=str(data), **settings), open_dataset(str(data), **kind)
        model = predictor.create(config, dataset)
        found[task] = place / f"{task}-model"
        (model.count(dataset) if task == "ngram" else model).save(found[task])
    return found


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
