"""The page for everybody: by the rules that axe-core knows, by the keyboard alone, and at a phone's width."""

from __future__ import annotations

import pytest
from tests.browser.pages import sections_of, settled, told_problems, typed_in, use_sections

BOTH = [("server", "en"), ("file", "en"), ("file", "zh-CN")]


@pytest.mark.parametrize(("place", "language"), BOTH, indirect=["place"])
def test_axe_finds_no_violation(opened, place, language, modules):
    page = opened(place, locale=language, reduced_motion="reduce")
    assert page.locator("html").get_attribute("lang").split("-")[0] == language.split("-")[0]
    settled(page)
    use_sections(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    settled(page)
    page.evaluate((modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = []
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settled(page)
            judged = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            found += [
                f"{width} px, {scheme}: {one['help']}: {node['html'][:160]} {node['failureSummary']}"
                for one in judged["violations"]
                for node in one["nodes"][::10]
            ]
    assert not found, "\n".join(found)


FOCUSED = """() => {
  const one = document.activeElement;
  const look = getComputedStyle(one);
  one.dataset.visited = "yes";
  const outlined = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0;
  const shape = one.ownerSVGElement ? getComputedStyle(one.querySelector("rect")) : null;
  const ring = outlined || look.boxShadow !== "none" || parseFloat(shape?.strokeWidth) >= 2;
  const inside = one.closest("section")?.id ?? null;
  return { name: one.tagName, ring, inside, text: one.outerHTML.slice(0, 120) };
}"""
REACHABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"
MISSED = """(reachable) => [...document.querySelectorAll(reachable)]
  .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0 && !one.dataset.visited)
  .filter((one) => !(one.type === "radio" && !one.checked))
  .map((one) => one.outerHTML.slice(0, 120))"""


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened, place):
    page = opened(place, reduced_motion="reduce")
    settled(page)
    use_sections(page)
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    ringless, reached = [], set()
    for _ in range(3000):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found["name"] == "BODY":
            break
        reached.add(found["inside"])
        if not found["ring"]:
            ringless.append(found["text"])
    assert set(sections_of(page)) <= reached
    assert page.evaluate(MISSED, REACHABLE) == []
    assert ringless == []


def test_every_section_answers_to_the_keyboard_alone(opened, place):
    page = opened(place)
    settled(page)
    for section in sections_of(page):
        box = page.locator(f"#{section} textarea").first
        if box.count():
            box.focus()
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.insert_text(typed_in(section))
        button = page.locator(f"#{section} button.main").first
        if button.count():
            button.focus()
            page.keyboard.press("Enter")
        settled(page)
        assert page.locator(f"#{section} .view").inner_text().strip(), section
        assert told_problems(page) == []


@pytest.mark.parametrize(("place", "language"), BOTH, indirect=["place"])
def test_at_a_phones_width_the_page_scrolls_down_only(opened, place, language):
    page = opened(
        place, viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True, locale=language
    )
    settled(page)
    use_sections(page)
    for width in (400, 320):
        page.set_viewport_size({"width": width, "height": 800})
        settled(page)
        wide = page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
              && one.getBoundingClientRect().right > innerWidth + 1
              && !one.closest(".scrolls, .scroll, [data-scrolls], nav, svg, .unseen, .skip"))
              .map((one) => one.outerHTML.slice(0, 100)).slice(0, 5)"""
        )
        assert page.evaluate("document.documentElement.scrollWidth") == width, wide
