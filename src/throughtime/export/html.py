"""Models and the page that runs them as one HTML file, which opens without a network.

The page is made of ES modules, but a file on a disk may not import others. So they are joined: each module
becomes a function that is called once and returns what it exports, in the order in which they need each
other. For that,

- imports are whole lines, `import { a, b as c } from "./x.js";` or `import "./x.js";`, and form no circle;
- exports are declarations: `export function`, `async function`, `class` or `const NAME =`.

The page and the worker, in which models run, are joined separately; the text of the worker is embedded beside
the models, each of which is a `<script type="text/plain">` with the deflated block of `pack_model` in
base64.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from throughtime.errors import ThroughtimeError
from throughtime.files import PAGE, whole_file

IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"(\.[^"]+)";\n', re.M)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.M)
LEFT = re.compile(r"^(import|export)\b.*", re.M)
WORKER = "engine/worker.js"
PRODUCTS = "engine/products.wasm"


def write_html(out: Path, blocks: Sequence[bytes]) -> dict[str, int]:
    """Write the file of these models, completely or not at all; return its size and that of the page."""
    page = build_page()
    models = "".join(f"{_data('model', _pack(block))}\n" for block in blocks)
    text = page.replace("</body>", f"{models}</body>", 1)
    with whole_file(out) as file:
        file.write(text)
    return {"bytes": len(text.encode()), "page_bytes": len(page.encode())}


def build_page(folder: Path = PAGE) -> str:
    """The page with its styles and scripts inside; only models are missing."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    scripts: list[str] = []

    def embed_script(found: re.Match[str]) -> str:
        name = found["name"]
        text = join_modules(folder / name) if found["module"] else (folder / name).read_text(encoding="utf-8")
        scripts.append(_in_script(text))
        return f"<script>{scripts[-1]}</script>"

    def embed_style(found: re.Match[str]) -> str:
        return f"<style>{(folder / found['name']).read_text(encoding='utf-8')}</style>"

    # A joined script runs at once, a module when the page has been read: it moves to the end.
    later = re.findall(r'[ \t]*<script type="module" src="[^"]+"></script>\n', page)
    for line in later:
        page = page.replace(line, "")
    worker = _data("worker", _in_script(join_modules(folder / WORKER)))
    if (folder / PRODUCTS).is_file():
        worker += "\n" + _data("products", base64.b64encode((folder / PRODUCTS).read_bytes()).decode())
    # Models come last; scripts that need them wait until the whole page is there.
    ending = "".join(
        line.replace('<script type="module"', '<script data-module="yes"').strip() + "\n" for line in later
    )
    page = page.replace("</body>", f"{worker}\n</body>", 1)
    page = page.replace("</html>", f"{ending}</html>", 1)
    page = re.sub(
        r'<script (?P<module>data-module="yes" )?src="(?P<name>[\w./-]+)"></script>', embed_script, page
    )
    page = re.sub(r'<link rel="stylesheet" href="(?P<name>[\w./-]+)">', embed_style, page)
    return page.replace("<head>", f"<head>\n  {_policy(scripts)}", 1)


def _policy(scripts: Sequence[str]) -> str:
    """What the page may do: run its own scripts and a worker made of them, and reach nothing outside."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts
    )
    rules = (
        "default-src 'none'",
        f"script-src {hashes} 'wasm-unsafe-eval'",
        "worker-src blob:",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def join_modules(entry: Path) -> str:
    """A module and all that it imports as one script."""
    joined: dict[Path, str] = {}
    names: dict[Path, str] = {}
    _join(entry.resolve(), joined, names, ())
    return '"use strict";\n' + "".join(joined.values())


def _join(path: Path, joined: dict[Path, str], names: dict[Path, str], above: tuple[Path, ...]) -> None:
    if path in joined:
        return
    if path in above:
        raise ThroughtimeError(f"{path.name}: imports itself by way of {above[-1].name}")
    text = path.read_text(encoding="utf-8")

    def import_names(found: re.Match[str]) -> str:
        other = (path.parent / found[2]).resolve()
        _join(other, joined, names, (*above, path))
        return f"const {found[1].replace(' as ', ': ')} = {names[other]};\n" if found[1] else ""

    text = IMPORT.sub(import_names, text)
    exported = [found[2] for found in EXPORT.finditer(text)]
    text = EXPORT.sub(r"\1 \2", text)
    if left := LEFT.search(text):
        raise ThroughtimeError(f"{path.name}: cannot be joined because of the line {left[0]!r}")
    names[path] = f"module{len(names)}"
    joined[path] = f"const {names[path]} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();\n"


def _in_script(text: str) -> str:
    """A text that does not end the script element that holds it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _data(name: str, text: str) -> str:
    return f'<script type="text/plain" data-part="{name}">{text}</script>'


def _pack(block: bytes) -> str:
    """The deflated block in base64."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(block) + packer.flush()).decode()
