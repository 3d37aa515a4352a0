"""Models and the page that runs them as one HTML file, which opens without a network.

The page is made of ES modules, but a file on a disk may not import others. So they are joined: each module
becomes a function that is called once and returns what it exports, in the order in which they need each
other. For that,

- imports are whole lines, `import { a, b as c } from "./x.js";` or `import "./x.js";`, and form no circle;
- exports are declarations: `export function`, `async function`, `class` or `const NAME =`;
- comments are whole lines, and are left out, as is the space at the beginning of lines, except inside texts
  between backticks; those are used for nothing else.

The page and the worker, in which models run, are joined separately. Both, the styles and the compiled
products are one deflated text in base 85, which `unpack.js` starts; each model is the deflated block of
`describe.pack_model` in base64. Only the code of the tasks that the models have is in the file.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path

from throughtime.errors import ThroughtimeError
from throughtime.files import PAGE, whole_file

IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"(\.[^"]+)";\n', re.M)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.M)
LEFT = re.compile(r"^(import|export)\b.*", re.M)
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)\n", re.M | re.S)
TITLE = re.compile(r"<title>.*?</title>")
START, WORKER, TASKS, PRODUCTS = "main.js", "engine/worker.js", "engine/tasks.js", "engine/products.wasm"


def write_html(
    out: Path, blocks: Sequence[bytes], tasks: Collection[str], names: Sequence[str]
) -> dict[str, int]:
    """Write the file of models of these tasks, completely or not at all; return its size and the page's.

    The names of the models are its title, so that several files can be told apart.
    """
    title = f"<title>{escape(', '.join(names))} – throughtime</title>"
    page = TITLE.sub(lambda _: title, build_page(tasks), count=1)
    models = "".join(f"{_data('model', _pack(block))}\n" for block in blocks)
    text = page.replace("</body>", f"{models}</body>", 1)
    with whole_file(out) as file:
        file.write(text)
    return {"bytes": len(text.encode()), "page_bytes": len(page.encode())}


def build_page(tasks: Collection[str]) -> str:
    """The page with its styles and scripts inside; only the models are missing."""
    page, style, theme, unpack = (
        (PAGE / name).read_text(encoding="utf-8")
        for name in ("index.html", "page.css", "theme.js", "unpack.js")
    )
    parts = {
        "style": shorten(style),
        "script": join_modules(PAGE / START),
        "worker": join_modules(PAGE / WORKER, tasks),
        "products": (PAGE / PRODUCTS).read_bytes().hex(),  # repeats stay repeats, unlike in base64
    }
    scripts = {"theme.js": shorten(theme), "unpack.js": shorten(unpack)}
    for line in (
        '<link rel="stylesheet" href="page.css">',
        '<script src="theme.js"></script>',
        f'<script type="module" src="{START}"></script>',
    ):
        if line not in page:
            raise ThroughtimeError(f"index.html: lacks the line {line}, which an export replaces")
        page = page.replace(f"  {line}\n", "", 1)
    policy = _policy([*scripts.values(), parts["script"], parts["worker"]])
    page = page.replace("<head>\n", f"<head>\n  {policy}\n", 1)
    inline = "".join(f"<script>{text}</script>\n" for text in scripts.values())
    page = page.replace("</head>", f"{inline}</head>", 1)
    packed = base64.b85encode(_deflate("\0".join(parts.values()).encode())).decode()
    return page.replace("</body>", f"{_data('page', packed)}\n</body>", 1)


def _policy(scripts: Sequence[str]) -> str:
    """What the page may do: run its own scripts and a worker made of them, and reach nothing outside."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
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


def join_modules(entry: Path, tasks: Collection[str] = ()) -> str:
    """A module and all that it imports as one script, with the code of these tasks."""
    joined: dict[Path, str] = {}
    names: dict[Path, str] = {}
    _join(entry.resolve(), joined, names, (), tasks)
    # In a block, as the page and the engine share their names where workers are forbidden.
    return '"use strict";\n{\n' + "".join(joined.values()) + "}\n"


def _join(
    path: Path,
    joined: dict[Path, str],
    names: dict[Path, str],
    above: tuple[Path, ...],
    tasks: Collection[str],
) -> None:
    if path in joined:
        return
    if path in above:
        raise ThroughtimeError(f"{path.name}: imports itself by way of {above[-1].name}")
    text = path.read_text(encoding="utf-8")
    if path == (PAGE / TASKS).resolve():
        text = choose_tasks(text, tasks)

    def import_names(match: re.Match[str]) -> str:
        other = (path.parent / match[2]).resolve()
        _join(other, joined, names, (*above, path), tasks)
        exported = re.findall(r"\w+", joined[other].rsplit("return {", 1)[1])
        for name in re.findall(r"(\w+)(?: as \w+)?(?= *[,}])", match[1] or ""):
            if name not in exported:
                raise ThroughtimeError(f"{path.name}: imports {name}, which {other.name} does not export")
        return f"const {match[1].replace(' as ', ': ')} = {names[other]};\n" if match[1] else ""

    text = IMPORT.sub(import_names, text)
    exported = [match[2] for match in EXPORT.finditer(text)]
    text = shorten(EXPORT.sub(r"\1 \2", text))
    if left := LEFT.search(text):
        raise ThroughtimeError(f"{path.name}: cannot be joined because of the line {left[0]!r}")
    names[path] = f"module{len(names)}"
    joined[path] = f"const {names[path]} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();\n"


def choose_tasks(text: str, tasks: Collection[str]) -> str:
    """The list of tasks in `engine/tasks.js` with these tasks alone.

    >>> choose_tasks('import { openTag } from "./tasks/tag.js";\\n  tag: openTag,\\n', ["fill"])
    ''
    """
    lines = text.splitlines(keepends=True)
    owners = [re.match(r'import .* from "\./tasks/(\w+)\.js";|\s+(\w+): open\w+,', line) for line in lines]
    return "".join(
        line
        for line, owner in zip(lines, owners, strict=True)
        if owner is None or (owner[1] or owner[2]) in tasks
    )


def shorten(text: str) -> str:
    """A script or styles without comments and indentation; a text between backticks stays as it is.

    >>> shorten("// Doubles.\\nif (x) {\\n  y = `a\\n  b`;\\n}\\n")
    'if (x) {\\ny = `a\\n  b`;\\n}\\n'
    """
    inside, lines = False, []
    for line in COMMENT.sub("", text).splitlines(keepends=True):
        lines.append(line if inside else line.lstrip())
        if line.count("`") % 2:
            inside = not inside
    return "".join(lines)


def _data(name: str, text: str) -> str:
    return f'<script type="text/plain" data-part="{name}">{text}</script>'


def _pack(block: bytes) -> str:
    """The deflated block in base64."""
    return base64.b64encode(_deflate(block)).decode()


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
