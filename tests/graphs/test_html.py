"""Models in one HTML file: what is written, and what is refused. tests/browser runs such files."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil

import numpy as np
import pytest
from tests.graphs.untrained import classifier
from tests.refusals import refuses

from throughtime import api
from throughtime.cells import RNN
from throughtime.errors import ThroughtimeError
from throughtime.graphs.describe import Constants, describe
from throughtime.graphs.graph import Graph, for_page
from throughtime.graphs.html import build_page, join_modules
from throughtime.tasks.base import load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("untrained"))


def test_a_file_holds_page_and_models_and_reaches_nothing(run, tmp_path):
    out = tmp_path / "model.html"
    values = load(run, "cpu").export(out)
    text = out.read_text(encoding="utf-8")
    assert values["bytes"] == out.stat().st_size
    assert values["page_bytes"] < 150_000
    assert values["models"] == [{"name": run.name, "task": "classify"}]
    assert text.count('data-part="model"') == 1
    assert not re.search(r'(src|href)="(?!data:|#)', text.split("</head>")[0])
    assert "connect-src 'none'" in text
    for script in re.findall(r"<script>(.*?)</script>", text, re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in text


def test_a_file_of_two_models(run, tmp_path):
    with refuses("two", repr(run.name)):
        api.export([run, run], tmp_path / "same.html")
    other = shutil.copytree(run, tmp_path / "other")
    values = api.export([load(run, "cpu"), other], tmp_path / "both.html", weights="float32")
    assert [one["name"] for one in values["models"]] == [run.name, "other"]
    assert (tmp_path / "both.html").read_text(encoding="utf-8").count('data-part="model"') == 2


def test_options_that_do_not_fit_are_refused(run, tmp_path):
    out = tmp_path / "model.html"
    with refuses("weights", "int4"):
        api.export(run, out, format="html", weights="int4")
    with refuses("int8", "default"):
        api.export(run, out, format="html", int8=True)
    with refuses("weights", "html"):
        api.export(run, tmp_path / "folder", weights="int8")
    with refuses("sample", "html"):
        api.export(run, tmp_path / "folder", sample=False)
    with refuses("run", "2 runs"):
        api.export([run, run], tmp_path / "folder")
    with refuses("out", "'folder'", "folder.html"):
        load(run, "cpu").export(tmp_path / "folder", format="html")
    with refuses("format", "'arpa'", "'html'"):
        api.export(run, tmp_path / "model.arpa")
    with refuses("arpa, html, onnx"):
        api.export(run, out, format="htm")
    with refuses("run", "'int'"):
        api.export([run, 3], out)
    out.write_text("mine")
    with refuses("model.html", "exists"):
        api.export(run, out, format="html")
    assert out.read_text() == "mine"


def test_a_constant_of_several_graphs_is_stored_once():
    constants = Constants()
    table = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    assert constants.add(table) == constants.add(table.copy()) == 0
    assert constants.add(table + 1) == 1
    assert [one["stored"] for one in constants.places] == ["int8", "int8"]
    assert sum(map(len, constants.blocks)) == 2 * (40 * 30 + 4 * 40)


class Threefold(RNN):
    """A cell with three tensors of state."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.state_sizes = (hidden_size,) * 3

    def graph_step(self, ops, projected, state):
        return tuple(ops.op("Add", projected, part) for part in state)


def test_every_tensor_of_a_state_has_its_letter():
    cell = Threefold(3, 3)
    with for_page():
        graph = Graph("one")
    state = tuple(graph.input(name, "float32", ["batch", 3]) for name in "hcs")
    graph.step(cell, graph.input("x", "float32", ["batch", 3]), state)
    [mark] = describe(graph, Constants(), {id(cell): "layer 1"})["marks"]
    assert [letters for _, letters in mark["values"]] == [["h"], ["c"], ["s_3"]]


def test_an_operator_that_pages_lack_is_refused():
    graph = Graph("one")
    graph.output(graph.op("Erf", graph.input("x", "float32", [3])), "y", "float32", [3])
    with refuses("export", "Erf", "Tanh"):
        describe(graph, Constants(), {})


def test_a_page_has_the_code_of_its_tasks_alone():
    assert len(build_page({"fill"})) < len(build_page({"fill", "forecast", "translate"}))


def test_modules_that_cannot_be_joined_are_named(tmp_path):
    (tmp_path / "one.js").write_text('import { two } from "./two.js";\nexport const one = two;\n')
    (tmp_path / "two.js").write_text('import { one } from "./one.js";\nexport const two = one;\n')
    with pytest.raises(ThroughtimeError, match="imports itself"):
        join_modules(tmp_path / "one.js")
    (tmp_path / "three.js").write_text("export default 3;\n")
    with pytest.raises(ThroughtimeError, match="export default"):
        join_modules(tmp_path / "three.js")
