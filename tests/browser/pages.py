"""Using every section of a page, whichever there are: what to type, and when the answers are there."""

from __future__ import annotations

TYPED = {
    "fill": "one ___ three",
    "forecast": "y\n" + "\n".join(f"{step % 8 / 8}" for step in range(40)),
}
"""What is typed where number words are not what a section reads."""
WORDS = "three one four"


def typed_in(section):
    """What to type into the box of a section."""
    return TYPED.get(section, WORDS)


def sections_of(page):
    """The names of the page's sections, in order."""
    return page.locator("main section[id]").evaluate_all("all => all.map(one => one.id)")


def settled(page, quiet=0.25):
    """Wait until no section has asked for anything for some seconds.

    The page's own timers count them: on a busy machine, those that it has set for a request come late too.
    """
    still = 0.0
    while still < quiet:
        busy = page.locator("section[aria-busy]")
        if busy.count():
            still = 0.0
            busy.first.wait_for(state="detached")
        page.evaluate("() => new Promise((done) => { setTimeout(done, 50); })")
        still += 0.05


def use_sections(page):
    """Type something into each section, send it, and wait for all answers."""
    for section in sections_of(page):
        box = page.locator(f"#{section} textarea").first
        if box.count():
            box.fill(typed_in(section))
        button = page.locator(f"#{section} button.main").first
        if button.count():
            button.click()
        settled(page)
    assert told_problems(page) == []


def told_problems(page):
    """The problems that the sections tell."""
    texts = page.locator("section .problem").all_inner_texts()
    return [text for text in texts if text.strip()]
