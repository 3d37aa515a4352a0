"""Models in node, without a page: what a page's engine answers for trained models."""

from __future__ import annotations

import base64

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


def ask_model(node, model, asked, weights="float32"):
    """What the engine answers to each (path, body) for a model; `{"problem": sentence}` where it refuses."""
    from throughtime.export.html import pack_block
    from throughtime.tasks.pages import pack

    products = PAGE / "engine" / "products.wasm"
    given = {
        "blocks": [pack_block(pack(model, "model", weights))],
        "products": base64.b64encode(products.read_bytes()).decode(),
        "asked": list(asked),
    }
    return node(ASK, given)
