"""The page in Firefox: it works as in Chromium, and shows the same."""

from __future__ import annotations

import pytest
from tests.browser.pages import TYPED, WORDS

USE = """async ({ typed, words }) => {
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  const settle = async () => {
    for (let quiet = 0; quiet < 6; quiet += 1) {
      if (document.querySelector("section[aria-busy]")) quiet = 0;
      await wait(50);
    }
  };
  await settle();
  const shown = {};
  for (const section of document.querySelectorAll("main section[id]")) {
    const box = section.querySelector("textarea");
    if (box) {
      box.value = typed[section.id] ?? words;
      box.dispatchEvent(new Event("input", { bubbles: true }));
    }
    section.querySelector("button.main")?.click();
    await settle();
    const text = (place) => [...section.querySelectorAll(place)].map((one) => one.textContent).join("\\n");
    shown[section.id] = { view: text(".view"), problem: text(".problem") };
  }
  const wide = Math.max(0, document.documentElement.scrollWidth - innerWidth);
  return { shown, wide, language: document.documentElement.lang };
}"""
GIVEN = {"typed": TYPED, "words": WORDS}


@pytest.mark.parametrize(
    ("place", "width", "dark", "language"),
    [("server", 1400, False, "en"), ("file", 1400, True, "en"), ("file", 400, False, "zh-CN")],
    indirect=["place"],
)
def test_firefox_shows_what_chromium_shows(opened, firefox, place, width, dark, language):
    scheme = "dark" if dark else "light"
    page = opened(place, viewport={"width": width, "height": 900}, locale=language, color_scheme=scheme)
    expected = page.evaluate(USE, GIVEN)
    steps = [{"wait": "main section[id]"}, {"run": USE, "given": GIVEN}]
    visit = {"address": place, "width": width, "steps": steps}
    (found,) = firefox(visit, dark=dark, language=language)
    assert found["complaints"] == []
    assert found["results"][1] == expected
    assert expected["wide"] == 0
    assert len(expected["shown"]) >= 8
    for section, shown in expected["shown"].items():
        assert shown["view"].strip(), section
        assert not shown["problem"].strip(), section
