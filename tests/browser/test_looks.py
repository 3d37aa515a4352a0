"""What the page looks like: nothing is cut off, and pictures of it for people to look at.

THROUGHTIME_PICTURES names a folder for the pictures; without it they are not kept.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.browser.pages import settled, use_sections

CUT = """() => {
  const told = [];
  const shorten = (one) => {
    const text = one.textContent.trim().slice(0, 60);
    return `${one.tagName} “${text}” in ${one.closest("section")?.id}`;
  };
  for (const text of document.querySelectorAll("main svg text")) {
    if (!text.checkVisibility() || !text.textContent.trim()) continue;
    const own = text.getBoundingClientRect();
    const all = text.ownerSVGElement.getBoundingClientRect();
    const sideways = Math.max(all.left - own.left, own.right - all.right);
    const beyond = Math.max(sideways, all.top - own.top, own.bottom - all.bottom);
    if (beyond > 1.5) told.push(`${shorten(text)} reaches ${beyond.toFixed(1)} px out of its picture`);
  }
  for (const one of document.querySelectorAll("main *, header *, footer *")) {
    const look = getComputedStyle(one);
    const hides = ["hidden", "clip"].includes(look.overflowX);
    if (!hides || !one.checkVisibility() || one.clientWidth < 2 || one.ownerSVGElement) continue;
    const hidden = one.scrollWidth - one.clientWidth;
    if (hidden > 1 && look.textOverflow !== "ellipsis") told.push(`${shorten(one)} hides ${hidden} px`);
  }
  return told;
}"""


@pytest.mark.parametrize(
    ("place", "language"), [("server", "zh-CN"), ("file", "en"), ("file", "zh-CN")], indirect=["place"]
)
def test_nothing_is_cut_off(opened, place, language, request):
    page = opened(place, locale=language, reduced_motion="reduce")
    settled(page)
    use_sections(page)
    folder = os.environ.get("THROUGHTIME_PICTURES")
    cut = []
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settled(page)
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
                name = f"{request.node.callspec.id}-{width}-{scheme}.png"
                page.evaluate("scrollTo(0, 0)")
                page.screenshot(path=Path(folder) / name, full_page=True)
        cut += [f"{width} px: {one}" for one in page.evaluate(CUT)]
    assert cut == []
