"""The page at /, in a real browser: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import re

import pytest
from tests.browser.conftest import PATIENCE, serving
from tests.serve.conftest import save_models

from throughtime.serve.models import Models
from throughtime.serve.requests import Options

INJECTED = "<img src=x onerror=\"document.title='broken'\"> the <b>cat</b>"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each kind, hardly trained but whole."""
    folder = tmp_path_factory.mktemp("served")
    return Models.open(list(save_models(folder / "data", folder / "runs").values()), "cpu")


@pytest.fixture(scope="module")
def site(models):
    with serving(models) as address:
        yield address


@pytest.fixture(scope="module")
def page(browser, site):
    """One page for tests that each use another section of it."""
    complaints = []
    found = browser.new_page()
    found.set_default_timeout(PATIENCE)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.goto(site)
    found.locator("#forecast path.fan").first.wait_for()
    yield found
    found.close()
    assert not complaints


def told(page, place, words):
    """Wait until these words stand there. The page's own policy forbids to wait with a script."""
    from playwright.sync_api import expect

    expect(page.locator(place).first).to_contain_text(words, timeout=PATIENCE)


def answered(page, section):
    """Wait until the newest question of a section is answered."""
    page.locator(f"#{section}:not([aria-busy])").wait_for()


def test_sections_only_for_what_is_loaded(opened, models, browser):
    few = Models([one for one in models if one.task == "ngram"])
    with serving(few) as address:
        page = opened(address)
        assert [one.get_attribute("id") for one in page.locator("section").all()] == ["write"]
        page.context.close()


def test_a_word_of_the_translation_lights_its_sources(page):
    page.locator("#translate select").select_option("0")
    box = page.locator("#translate textarea")
    box.fill("the cat sleeps")
    box.press("Enter")
    words = page.locator("#translate .target .word")
    told(page, "#translate .words", "sleeps")
    sources = page.locator("#translate .words:not(.target) .word")
    assert sources.all_inner_texts() == ["the", "cat", "sleeps", "⟨end⟩"]
    weights = "all => all.map(one => Number(getComputedStyle(one).getPropertyValue('--weight')))"
    words.first.hover()
    hovered = sources.evaluate_all(weights)
    assert sum(hovered) == pytest.approx(1, abs=0.02)
    page.mouse.move(1, 1)
    words.last.focus()
    focused = sources.evaluate_all(weights)
    assert sum(focused) == pytest.approx(1, abs=0.02)
    assert "lit" in words.last.get_attribute("class")
    assert "lit" not in words.first.get_attribute("class")
    assert "looked" in page.locator("#translate .readout").inner_text()
    page.locator("#translate .matrix").hover(position={"x": 120, "y": 60})
    assert page.locator("#translate .word.lit").count() == 1


def test_alternatives_can_be_chosen(page):
    page.locator("#translate select").select_option("2")
    page.locator("#translate textarea").fill("the dog sees")
    page.locator("#translate button.main").click()
    answered(page, "translate")
    choices = page.locator("#translate .choice")
    choices.nth(1).wait_for()
    choices.nth(1).click()
    assert choices.nth(1).get_attribute("aria-pressed") == "true"
    assert choices.nth(0).get_attribute("aria-pressed") == "false"


def test_the_search_goes_step_by_step(page):
    page.locator("#search textarea").fill("the cat sleeps")
    page.locator("#search button.main").click()
    answered(page, "search")
    slider = page.locator("#search input[type=range]")
    slider.wait_for()
    visible = page.locator("#search .node:not(.later)")
    everything = visible.count()
    slider.focus()
    slider.press("Home")
    assert 0 < visible.count() < everything
    assert "step 1 of" in page.locator("#search .at").inner_text()
    page.locator("#search .node.cut").first.focus()
    assert "not among the" in page.locator("#search .readout").inner_text()
    page.get_by_role("button", name="Play the search").click()
    told(page, "#search .at", "step 2")


def test_the_next_token_is_told_while_one_types(page):
    page.locator("#write .next").first.wait_for()
    box = page.locator("#write textarea")
    box.fill("")
    box.type("the cat", delay=5)
    told(page, "#write .surprises", "cat")
    place = "one => [one.offsetTop, one.offsetHeight]"
    before = page.locator("#write .bars").evaluate(place)
    button = page.locator("#write .next:enabled").first
    button.click()
    told(page, "#write .surprises", box.input_value().removeprefix("the cat").strip())
    assert page.locator("#write .bars").evaluate(place) == before  # nothing jumps


def test_blanks_are_filled_and_a_forecast_is_drawn(page):
    page.locator("#fill textarea").fill("the ___ sleeps .")
    page.locator("#fill button.main").click()
    told(page, "#fill .fillings", "sleeps")
    assert page.locator("#fill .filling").count() == 5
    assert page.locator("#fill mark").count() == 5
    page.locator("#forecast path.fan").first.wait_for()
    assert page.locator("#forecast path.fan").count() == 3
    page.locator("#forecast textarea").fill(
        "ds,y\n" + "".join(f"{time},{time % 7}\n" for time in range(501, 520))
    )
    page.locator("#forecast button.main").click()
    told(page, "#forecast svg", "519")
    page.locator("#forecast svg").focus()
    page.locator("#forecast svg").press("ArrowRight")
    assert "50 % within" in page.locator("#forecast .readout").inner_text()


def test_a_bar_is_as_long_as_the_share_beside_it(page):
    page.locator("#fill .filling").first.wait_for()
    bars = """all => all.map(one => [
        one.querySelector('.bar').offsetWidth / one.querySelector('.track').offsetWidth,
        parseFloat(one.querySelector('.share').textContent) / 100])"""
    for place in ("#fill .filling", "#write .next"):
        found = page.locator(place).evaluate_all(bars)
        assert found
        for long, share in found:
            assert long == pytest.approx(share, abs=0.02)


def test_a_small_share_has_two_digits(page):
    shares = [0.634, 0.0312, 0.00123, 0.00096, 0.0000231, 1.5e-10, 0]
    told = page.evaluate("all => import('./dom.js').then(dom => all.map(dom.percent))", shares)
    assert [one.replace("\u00a0", " ") for one in told] == [
        "63 %",
        "3.1 %",
        "0.1 %",
        "0.096 %",
        "0.0023 %",
        "1.5e−8 %",
        "0.0 %",
    ]


def test_what_goes_wrong_is_told_in_a_sentence(page):
    page.locator("#forecast path.fan").first.wait_for()
    page.locator("#forecast textarea").fill("1\ntwo\n3")
    page.locator("#forecast button.main").click()
    assert (
        page.locator("#forecast .problem").inner_text().endswith("Line 2 has “two” where a number should be.")
    )
    page.locator("#forecast textarea").fill("1\n2\n3")
    page.locator("#forecast button.main").click()
    told(page, "#forecast .problem", "3 rows")
    page.locator("#search textarea").fill(" ")
    page.locator("#search button.main").click()
    told(page, "#search .problem", "is empty")


def test_text_stays_text(opened, site):
    page = opened(site)
    for section in ("translate", "search", "write", "gates"):
        page.locator(f"#{section} textarea").fill(INJECTED)
        if section != "write":
            page.locator(f"#{section} button.main").click()
    page.locator("#fill textarea").fill(f"{INJECTED} ___")
    page.locator("#fill button.main").click()
    told(page, "#translate .words", "onerror")
    told(page, "#fill .view", "onerror")
    page.wait_for_timeout(400)
    assert page.locator("main img, main b").count() == 0
    assert page.title().endswith(" – throughtime")


def test_light_and_dark_and_the_switch(opened, site):
    page = opened(site, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    switch = page.get_by_role("button", name="Switch between light and dark")
    assert switch.get_attribute("aria-pressed") == "true"
    switch.click()
    light = page.evaluate(colour)
    assert dark != light
    page.reload()
    assert page.evaluate(colour) == light  # the choice is kept
    assert opened(site, color_scheme="light").evaluate(colour) == light


def test_on_a_phone_nothing_is_cut_off_or_printed_over_another(opened, site):
    page = opened(site, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.locator("#forecast path.fan").first.wait_for()
    rows = "".join(f"{time},{time % 7}\n" for time in range(1_000_000_001, 1_000_000_032))
    page.locator("#forecast textarea").fill(f"ds,y\n{rows}")
    page.locator("#forecast button.main").click()
    told(page, "#forecast svg", "1000000035")
    marks = page.locator("#forecast svg text").filter(has_text=re.compile("^10000000")).all()
    boxes = sorted((one.bounding_box() for one in marks), key=lambda box: box["x"])
    assert len(boxes) == 2  # the last that was observed would touch the end of the forecast
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    page.locator("#gates .head select").select_option("en-fr")
    page.locator("#gates .matrix[aria-label^='Values of z']").wait_for()
    card = page.locator("#gates").bounding_box()
    for one in page.locator("#gates select").all():
        box = one.bounding_box()
        assert box["x"] + box["width"] <= card["x"] + card["width"] - 10
    field = page.locator("#gates textarea")
    for words in (2, 9, 30):
        field.fill("remember " * words)
        hidden, lines = field.evaluate(
            """one => { const look = getComputedStyle(one);
            const inner = one.clientHeight - parseFloat(look.paddingTop) - parseFloat(look.paddingBottom);
            return [one.scrollHeight - one.clientHeight, inner / parseFloat(look.lineHeight)]; }"""
        )
        assert hidden == 0
        assert lines == pytest.approx(round(lines), abs=0.1)


def test_a_key_is_asked_for_where_one_is_needed(opened, models):
    few = Models([one for one in models if one.task == "ngram"])
    with serving(few, Options(api_key="secret")) as address:
        page = opened(address)
        told(page, "#write .problem", "API key")
        page.locator("#key input").fill("secret")
        page.locator("#key button").click()
        page.locator("#write textarea").fill("the")
        page.locator("#write .next").first.wait_for()
        page.context.close()


def test_a_warning_is_noted_and_taken_back(page):
    box = page.locator("#translate textarea")
    box.fill("猫在睡觉")
    box.press("Enter")
    told(page, "#translate .warning", "The text is in Chinese characters")
    assert page.locator("#translate .warning").is_visible()
    box.fill("the cat sleeps")
    box.press("Enter")
    told(page, "#translate .words", "sleeps")
    answered(page, "translate")
    assert not page.locator("#translate .warning").is_visible()


def test_the_policy_lets_the_pages_work_and_workers_and_wasm_but_nothing_inline(browser, site):
    page, complaints = browser.new_page(), []
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(f"{site}/docs")
    assert page.evaluate("getComputedStyle(document.querySelector('h2')).textTransform") == "capitalize"
    assert not [line for line in complaints if "status of 404" not in line]  # it has no icon
    page.goto(site)
    empty_module = "new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])"
    assert page.evaluate(f"WebAssembly.instantiate({empty_module}).then(() => true)")
    work = "onmessage = (event) => postMessage(2 * event.data)"
    assert (
        page.evaluate(
            """(source) => new Promise((resolve, reject) => {
                const worker = new Worker(URL.createObjectURL(new Blob([source])));
                worker.onmessage = (event) => resolve(event.data);
                worker.onerror = reject;
                worker.postMessage(21);
            })""",
            work,
        )
        == 42
    )
    inline = "document.head.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
    page.evaluate(inline)
    assert page.evaluate("window.ran === undefined")
    assert "Content Security Policy" in complaints[-1]
    page.close()
