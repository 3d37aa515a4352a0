"""Models in node, without a page: what a page's engine answers for trained models."""

from __future__ import annotations

import base64
import json
import zlib

from throughtime.files import PAGE

ASK = """
import { openModels, answer as respond, makeContext } from "page/engine/requests.js";
import { Problem } from "page/engine/problem.js";
const models = await openModels({ blocks: data.blocks, products: data.products });
const found = [];
for (const [path, body] of data.asked) {
  try {
    found.push(await respond(models, path, body, makeContext()));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    found.push({ problem: error.message });
  }
}
answer(found);
"""


def ask_model(node, model, asked, weights="float32", sample=True):
    """What the engine answers to each (path, body) for a model; `{"problem": sentence}` where it refuses."""
    from throughtime.tasks.pages import pack

    block = pack(model, "model", weights, sample)
    products = PAGE / "engine" / "products.wasm"
    given = {
        "blocks": [base64.b64encode(zlib.compress(block, 9, -zlib.MAX_WBITS)).decode()],
        "products": base64.b64encode(products.read_bytes()).decode(),
        "asked": list(asked),
    }
    return node(ASK, given)


def rounded(model, weights, folder):
    """The model in Python with the weights that a file holds: itself, or a runner with rounded weights."""
    from throughtime import runtime
    from throughtime.graphs.describe import build_graphs, round_weights
    from throughtime.graphs.write import to_onnx
    from throughtime.tasks import TASKS

    if weights == "float32":
        return model
    exported = TASKS[model.task].part("exporter")(model)
    graphs = build_graphs(exported)
    round_weights(graphs, weights)
    folder.mkdir()
    for part, graph in graphs.items():
        (folder / f"{part}.onnx").write_bytes(to_onnx(graph))
    exported.save(folder)
    values = {
        "format": runtime.session.FORMAT,
        "version": runtime.session.VERSION,
        "throughtime": "",
        "task": model.task,
        "precision": "float32",
        "parts": {part: f"{part}.onnx" for part in graphs},
        "bytes": {},
        "verified": {},
        "settings": exported.settings,
    }
    (folder / "export.json").write_text(json.dumps(values), encoding="utf-8")
    return runtime.load(folder, trust_changed=True)
