"""What the page's files may contain; how they work is tested in tests/browser."""

from __future__ import annotations

import re

from throughtime.files import PAGE


def test_nothing_is_loaded_from_elsewhere_and_nothing_parses_html():
    kinds = {".html", ".css", ".js"}
    sources = {
        path.name: path.read_text(encoding="utf-8") for path in PAGE.rglob("*") if path.suffix in kinds
    }
    assert {"index.html", "page.css", "main.js"} <= set(sources)
    for name, text in sources.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not addresses, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), name
