"""A page mixes a counted model with its network as Python does; node runs it, without a browser."""

from __future__ import annotations

import base64

import pytest
from tests.browser.answers import differences
from tests.graphs import untrained

import throughtime as tt
from throughtime.graphs.html import _deflate
from throughtime.inspection.next_tokens import next_tokens
from throughtime.tasks.pages import pack

SCRIPT = """
import { answer as ask, makeContext, openModels } from "page/engine/requests.js";
const models = await openModels({ blocks: data.blocks, plain: true });
const answers = [];
for (const [path, body] of data.asked) answers.push(await ask(models, path, body, makeContext()));
answer(answers);
"""


@pytest.mark.parametrize("layout", ["lines", "stream"])
def test_a_page_answers_with_both_models(node, tmp_path, layout):
    language = tt.load(untrained.language(tmp_path, layout=layout, counted=3))
    language.model.share.fill_(0.4)
    block = base64.b64encode(_deflate(pack(language, "pair", "float32"))).decode()
    prompts = ["", "the", "a green cat sees the unseen"]
    asked = [["inspect/next", {"q": prompt, "k": 5}] for prompt in prompts]
    drawn = {"prompt": "the cat", "max_tokens": 12, "seed": 3, "echo": True, "logprobs": 1}
    *expected, completion = node(SCRIPT, {"blocks": [block], "asked": [*asked, ["v1/completions", drawn]]})
    for prompt, found in zip(prompts, expected, strict=True):
        assert not differences(
            found, next_tokens(language, prompt, 5).to_dict(), absent=("warnings", "model")
        )
    (choice,) = completion["choices"]
    written = language.generate("the cat", max_new_tokens=12, seed=3)[0].text
    assert choice["text"] == written
