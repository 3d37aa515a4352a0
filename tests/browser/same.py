"""Comparing models inside a page with the same models behind a server."""

from __future__ import annotations

import contextlib
import io

from starlette.testclient import TestClient
from tests.browser.answers import ask, differences

from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options

CHANGING = ("id", "created")
"""Fields of completions that are new in each answer."""


@contextlib.contextmanager
def both(browser, exported, folders, weights="float32"):
    """A function that says where a page and a server with the models in these folders differ.

    It takes pairs of a path and a body, and returns sentences, and the bodies that both refuse.
    """
    models = Models.open(list(folders), "cpu")
    page = browser.new_page()
    page.goto(exported(*folders, weights=weights).resolve().as_uri())
    page.wait_for_function("globalThis.throughtime?.engine")
    with TestClient(create_app(models, Options(), log=io.StringIO())) as client:

        def compare(asked):
            told, refused = [], []
            for path, body in asked:
                found, answer = ask(page, path, body), client.post(f"/{path}", json=body)
                expected = answer.json()
                if answer.status_code != 200:
                    refused.append(body)
                    wrong = [] if "problem" in found else [f"the page answers what is refused: {expected}"]
                else:
                    wrong = differences(in_order(found), in_order(expected), absent=CHANGING)
                told += [f"{path} {body}: {one}" for one in wrong]
            return told, refused

        yield compare
    page.close()


def in_order(answer):
    """An answer whose equally likely next tokens are in the order of their names: rounding decides theirs."""
    if "expected" in answer:
        likely = sorted(answer["expected"], key=lambda one: (-round(one["probability"], 5), one["token"]))
        return {**answer, "expected": likely}
    return answer
