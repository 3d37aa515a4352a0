"""An exported HTML file by itself: without a network, from a disk, small, and equal to Python.

Tests of the tasks compare more of what each answers; here a file with all of them is asked in Chromium.
"""

from __future__ import annotations

import random

import pytest
from tests.browser.answers import ask, ask_all, differences
from tests.browser.conftest import TASKS
from tests.browser.pages import sections_of, settled, told_problems, use_sections

WORDS = ("one", "two", "three", "four", "five", "six", "été", "猫")
LIMIT = 150_000
"""How many bytes page and runner may take, without models."""


@pytest.fixture(scope="module")
def everything(exported):
    """A file with a model of each task, with weights as they were trained."""
    return exported(*TASKS, weights="float32")


def some_texts(count):
    """Number words, a few of them unknown to the models."""
    dice = random.Random(5)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, 9))) for _ in range(count)]


def bodies(task, count):
    """What a model of a task is asked: (path, body)."""
    texts = some_texts(count)
    dice = random.Random(7)
    if task == "translate":
        beams = [{}, {"num_beams": 1}, {"num_beams": 4}]
        told = [("translate", {"q": one, "source": "en", "target": "fr"}) for one in texts]
        told += [("inspect/attention", {"q": one, "alternatives": 3}) for one in texts[: count // 5]]
        told += [
            ("inspect/beam", {"q": one, **beams[place % 3]}) for place, one in enumerate(texts[: count // 5])
        ]
        return told
    if task in ("language", "ngram"):
        drawn = {"max_tokens": 8, "temperature": 0.9}
        told = [("v1/completions", {"prompt": one, "seed": seed, **drawn}) for seed, one in enumerate(texts)]
        return told + [("inspect/next", {"q": one, "k": 5}) for one in texts]
    if task == "fill":
        blanked = [" ".join([*one.split()[:-1], "___"]) for one in texts]
        return [("fill", {"q": one}) for one in blanked]
    if task == "compose":
        return [
            ("compose", {"label": dice.choice(["even", "odd"]), "seed": seed, "num_return_sequences": 2})
            for seed in range(count)
        ]
    if task == "forecast":
        series = [[dice.uniform(-1, 1) for _ in range(dice.randint(8, 30))] for _ in range(count)]
        return [
            ("forecast", {"h": 1 + place % 4, "series": [{"unique_id": "one", "y": y}], "level": [50, 80]})
            for place, y in enumerate(series)
        ]
    return [(task, {"q": one}) for one in texts]


# A server counts its answers and measures their time; a file does not.
ON_A_SERVER = ("id", "created", "system_fingerprint", "seconds")


@pytest.mark.parametrize("task", TASKS)
def test_a_file_in_chromium_answers_what_a_server_answers(
    opened, everything, trained_site, inputs, task
):  # R109
    httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
    page = opened(everything)
    asked = bodies(task, inputs)
    wrong = []
    with httpx2.Client(base_url=trained_site, timeout=60) as client:
        for path in dict.fromkeys(path for path, _ in asked):
            own = [{"model": task, **body} for other, body in asked if other == path]
            for body, found in zip(own, ask_all(page, path, own), strict=True):
                answer = client.post(f"/{path}", json=body)
                assert answer.status_code == 200, (path, body, answer.text)
                expected = answer.json()
                told = differences(found, expected, absent=ON_A_SERVER)
                wrong += [f"{path} {body}: {one}" for one in told[:2]]
    assert not wrong, f"{len(wrong)} of {len(asked)}:\n" + "\n".join(wrong[:12])


def test_a_file_lists_its_models_as_a_server_does(opened, everything, trained_site):
    httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
    found = ask(opened(everything), "models")
    expected = httpx2.get(f"{trained_site}/models").json()
    by_name = {one["name"]: one for one in expected}
    assert {one["name"] for one in found} == set(by_name)
    for one in found:
        other = by_name[one["name"]]
        assert differences({"task": one["task"]}, {"task": other["task"]}) == []
        assert set(one["abilities"]) == set(other["abilities"]), one["name"]


def test_page_and_runner_are_small(exported, runs):
    for task in TASKS:
        whole = exported(task, weights="int8").read_text(encoding="utf-8")
        begin = whole.index('data-part="model"')
        model = whole.index("</script>", begin) - begin
        assert len(whole.encode()) - model <= LIMIT, task


def test_without_a_network_and_without_workers_a_file_still_answers(opened, everything, browser):
    context = browser.new_context(offline=True)
    context.add_init_script("delete globalThis.Worker")
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(everything.resolve().as_uri())
    page.wait_for_selector("section")
    settled(page)
    assert len(sections_of(page)) == 9
    use_sections(page)
    assert told_problems(page) == []
    assert complaints == []
    context.close()


def test_without_webassembly_a_file_answers_the_same(opened, everything):
    asked = [{"model": "translate", "q": one, "source": "en", "target": "fr"} for one in some_texts(5)]
    expected = ask_all(opened(everything), "translate", asked)
    context = opened(everything).context
    context.add_init_script("delete globalThis.WebAssembly")
    page = context.pages[0]
    page.goto(everything.resolve().as_uri() + "?plain")
    page.wait_for_selector("section")
    assert differences(ask_all(page, "translate", asked), expected) == []


def test_an_answer_no_longer_wanted_is_cancelled(opened, everything):
    page = opened(everything)
    settled(page)
    outcome = page.evaluate(
        """async () => {
          const { engine } = globalThis.throughtime;
          const stop = new AbortController();
          const body = { model: "language", prompt: "one", max_tokens: 100000, n: 8, ignore_eos: true };
          const asked = engine.post("v1/completions", body, stop.signal);
          const long = asked.then(() => "answered", (error) => error.name);
          stop.abort();
          const started = performance.now();
          const next = await engine.post("inspect/next", { model: "language", q: "one", k: 3 });
          return [await long, next.expected.length, performance.now() - started];
        }"""
    )
    assert outcome[:2] == ["AbortError", 3]


def test_what_cannot_be_answered_is_told_in_a_sentence(opened, everything):
    page = opened(everything)
    for path, body in [
        ("translate", {"model": "nobody", "q": "one", "source": "en", "target": "fr"}),
        ("nowhere", {"model": "translate"}),
        ("forecast", {"model": "forecast", "h": 2, "series": []}),
        ("fill", {"model": "fill", "q": "no blank"}),
    ]:
        problem = ask(page, path, body).get("problem", "")
        assert problem.endswith("."), (path, problem)
        assert len(problem) > 15, (path, problem)
        assert "undefined" not in problem
