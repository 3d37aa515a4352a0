"""Build `throughtime-runtime`: the modules of throughtime that run exported models, under another name.

Two distributions that own the same files overwrite each other, and removing one breaks the other. So this one
has an import package of its own, `throughtime_runtime`, written when it is built: nothing is in git twice.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
BUILT = HERE / "throughtime_runtime"
"""In an archive of sources, where the package has been written already."""
OLD, NEW = "throughtime", "throughtime_runtime"
REQUIRED = {"numpy", "onnxruntime", "tokenizers"}
ENTRY = re.compile(r"throughtime(\.\w+)+(?=:\w+$)")
"""An entry of a registry: a module that is imported by name."""
PACKAGE = '''"""Models exported by throughtime at work, on onnxruntime, numpy and tokenizers alone."""

from throughtime_runtime.runtime import History as History
from throughtime_runtime.runtime import load as load
from throughtime_runtime.version import __version__ as __version__
'''


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the package to a wheel or to an archive of sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the package to a temporary folder, unless it is here already."""
        if BUILT.is_dir():
            return  # found by itself
        self.temporary = tempfile.TemporaryDirectory()
        package = Path(self.temporary.name) / NEW
        write_package(package)
        build_data["force_include"][str(package)] = NEW
        build_data["force_include_editable"] = {str(package): NEW}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if hasattr(self, "temporary"):
            self.temporary.cleanup()


def read_version() -> str:
    """The version of throughtime."""
    text = ((BUILT if BUILT.is_dir() else SOURCE / OLD) / "version.py").read_text()
    found = re.search(r'__version__ = "(.+)"', text)
    assert found is not None, text
    return found[1]


def write_package(out: Path) -> None:
    """Write all modules that running an export needs."""
    for module, path in needed_modules().items():
        inside = path.relative_to(SOURCE / OLD)
        place = out / inside
        for folder in [one for one in inside.parents if one != Path()]:
            (out / folder).mkdir(parents=True, exist_ok=True)
            # A package that nothing is imported from is needed only to be there.
            (out / folder / "__init__.py").touch()
        check_imports(module, path)
        place.write_text(rename(path.read_text(encoding="utf-8")), encoding="utf-8")
    (out / "__init__.py").write_text(PACKAGE)
    (out / "py.typed").touch()
    (out / "LICENSE").write_text((HERE.parent / "LICENSE").read_text())


def needed_modules() -> dict[str, Path]:
    """The runtime, the runners of all tasks, and all modules that these import, by their names."""
    runners = sorted((SOURCE / OLD).glob("tasks/*/runner.py"))
    waiting = [
        f"{OLD}.runtime",
        f"{OLD}.version",
        *(f"{OLD}.tasks.{one.parent.name}.runner" for one in runners),
    ]
    found: dict[str, Path] = {}
    while waiting:
        module = waiting.pop()
        path = path_of(module)
        if module not in found and module != OLD and path is not None:
            found[module] = path
            waiting += imported(path)
    return found


def path_of(module: str) -> Path | None:
    """The file of a module, or None where the name is that of something inside a module."""
    base = SOURCE.joinpath(*module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return path if path.is_file() else None


def imported(path: Path) -> list[str]:
    """All names that a module may import from throughtime, entries of registries and runners included."""
    found: list[str] = []
    for node in walk_module(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        elif isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.Dict):  # of a registry
            found += [module for value in node.values if (module := entry_module(value)) is not None]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "runner":
            found += [module for module in [entry_module(node.value)] if module is not None]
    return [name for name in found if name.split(".")[0] == OLD]


def walk_module(path: Path) -> Iterator[ast.AST]:
    """Walk the syntax tree of a module, without what only type checkers read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            node.body = []
    return ast.walk(tree)


def entry_module(node: ast.expr | None) -> str | None:
    """The module of a `module:attribute`, as registries and declarations of tasks hold them."""
    text = node.value if isinstance(node, ast.Constant) else None
    found = ENTRY.match(text) if isinstance(text, str) else None
    return found[0] if found else None


def check_imports(module: str, path: Path) -> None:
    """Stop the build where a module needs a package that this distribution does not bring."""
    for node in walk_module(path):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        strange = {name.split(".")[0] for name in names} - {OLD, *REQUIRED} - set(sys.stdlib_module_names)
        assert not strange, f"{module} imports {', '.join(sorted(strange))}, which throughtime-runtime lacks"


def rename(text: str) -> str:
    """The text of a module with the names of other modules changed.

    >>> rename("from throughtime.errors import InputError  # pip install throughtime")
    'from throughtime_runtime.errors import InputError  # pip install throughtime'
    """
    return re.sub(rf"\b{OLD}(?=\.[a-z_])", NEW, text)
