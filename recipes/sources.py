"""A digest of the code that a row depends on: twelve digits that change when the code changes.

The code is everything that the task of the row and the modules of this folder import, also within functions.
Comments, docstrings and formatting do not count, nor do the command line, plots and this machinery.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import throughtime
from recipes.recipe import HERE, Recipe
from throughtime.tasks import TASKS

ROOTS = (Path(throughtime.__file__).parents[1], HERE.parent)
LEFT_OUT = (
    "throughtime.cli",
    "throughtime.plots",
    "throughtime.tasks.pages",
    "throughtime.version",
    "recipes.measure",
    "recipes.recipe",
)
MODELS_OF_ANY_KIND = ("throughtime.tasks.base", "throughtime.tasks.texts", "throughtime.tasks.text_config")
TRAINER = ("throughtime.train", "throughtime.models", "throughtime.layers", "throughtime.export")
BESIDE = (".cu", ".cuh", ".gz", ".json", ".txt")
"""Files that modules of a package read, such as kernels and texts; they count byte by byte."""
TRAINS = {"backtests": "forecast", "sine": "forecast"}
"""Modules of this folder that train by the command line, and so do not import the task."""


def sources(recipes: Mapping[str, Recipe]) -> dict[str, str]:
    """The digits of each recipe; settings and code of the runs that it needs count too."""
    hashed = functools.cache(_hashed)  # for this call alone: files may change

    def digits(name: str) -> str:
        words = [hashed(entries(recipes[name]))]
        for needed in recipes[name].needed:
            words += [recipes[needed].fingerprint, hashed(entries(recipes[needed]))]
        return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]

    return {name: digits(name) for name in recipes}


def _hashed(begun: frozenset[str]) -> str:
    hashed = hashlib.sha256()
    for module in sorted(imported(begun)):
        file = _file(module)
        hashed.update(f"{module} {_digest(file.read_text('utf-8'))}\n".encode())
        if module.startswith("throughtime") and file.name == "__init__.py":
            beside = sorted(path for path in file.parent.iterdir() if path.suffix in BESIDE)
            hashed.update(b"".join(path.name.encode() + path.read_bytes() for path in beside))
    return hashed.hexdigest()


def entries(recipe: Recipe) -> frozenset[str]:
    """The modules where a measurement begins."""
    begun = {"throughtime.data.datasets"}
    if recipe.task not in TASKS:
        begun.add(f"recipes.{recipe.task}")
    elif recipe.task in ("translate", "fill"):
        begun.add("recipes.asked")
    if (name := TRAINS.get(recipe.task, recipe.task)) in TASKS:
        begun.add(TASKS[name].predictor.partition(":")[0])
        begun |= {"throughtime.train.run"} if TASKS[name].uses_trainer else set()
    return frozenset(begun)


def imported(modules: Iterable[str]) -> set[str]:
    """The modules, everything that they import, and the packages that contain them."""
    found: set[str] = set()
    waiting = set(modules)
    while waiting:
        module = waiting.pop()
        if not module.startswith(LEFT_OUT):
            found.add(module)
            named = {*_imports(_file(module).read_text("utf-8")), module.rpartition(".")[0]}
            if module in MODELS_OF_ANY_KIND:  # `entries` knows which tasks use the trainer
                named = {one for one in named if not one.startswith(TRAINER)}
            waiting |= {one for one in named if _is_module(one)} - found
    return found


def _file(module: str) -> Path:
    place = module.replace(".", "/")
    files = [root / path for root in ROOTS for path in (f"{place}.py", f"{place}/__init__.py")]
    return next(path for path in files if path.exists())


def _is_module(name: str) -> bool:
    try:
        return name.startswith(("throughtime", "recipes")) and _file(name).exists()
    except StopIteration:
        return False  # a name that lies in a module


@functools.cache
def _imports(text: str) -> frozenset[str]:
    def names(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            return  # never imported
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{one.name}" for one in node.names))
        for child in ast.iter_child_nodes(node):
            yield from names(child)

    return frozenset(names(ast.parse(text)))


@functools.cache
def _digest(text: str) -> str:
    # ascii(), as which letters repr() shows as they are depends on the version of Python.
    return hashlib.sha256(ascii(_plain(ast.parse(text))).encode()).hexdigest()


def _plain(node: object) -> object:
    """A syntax tree without docstrings, and without fields that only some versions of Python have."""
    if isinstance(node, list):
        return [_plain(one) for one in node if not _is_text(one)]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):  # some versions put empty texts between the parts of an f-string
        return "JoinedStr", [_plain(one) for one in node.values if getattr(one, "value", None) != ""]
    fields = {name: _plain(value) for name, value in ast.iter_fields(node) if name != "kind"}
    return type(node).__name__, {name: value for name, value in fields.items() if value not in (None, [])}


def _is_text(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
