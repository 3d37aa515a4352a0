"""Write requirements/*.txt: each package of an environment by version, with the SHA-256 of all its files.

`python tools/lock.py` resolves the newest versions that pyproject.toml and constraints.txt allow, and asks
the index that pip uses for the files of each, those of other systems included. `python tools/lock.py --check`
needs no network: it fails if the files were made for other requirements. torch is left out, as its builds
differ from place to place; constraints.txt has its version.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {"demo": ("plot", "serve"), "dev": ("dev",)}
"""The environments, and the extras of this project that each has."""
LEFT_OUT = ("throughtime", "torch")
SYSTEMS = {
    "linux": {"os_name": "posix", "platform_system": "Linux", "platform_machine": "x86_64"},
    "darwin": {"os_name": "posix", "platform_system": "Darwin", "platform_machine": "arm64"},
    "win32": {"os_name": "nt", "platform_system": "Windows", "platform_machine": "AMD64"},
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_UNUSABLE = re.compile(r"-(pp\d+|cp(2\d|3\d|310))-(?!abi3|none)[^-]+-[^-]+\.whl$")  # other Pythons than ours
_LOCKED = re.compile(
    r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def main(words: list[str]) -> int:
    """Write the files, or check them; the exit code is 1 if they are out of date."""
    if words == ["--check"]:
        problems = check(ROOT)
        print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
        return 1 if problems else 0
    packages = resolve()
    sums = dict(zip(packages, ThreadPoolExecutor(8).map(file_sums, packages.values()), strict=True))
    for name, extras in EXTRAS.items():
        wanted = closure(packages, extras)
        lines = [f"# Made by `make lock`; do not edit. Requirements: {digest(ROOT)}\n"]
        for package in sorted(wanted - {*LEFT_OUT}):
            hashes = " \\\n".join(f"    --hash=sha256:{one}" for one in sums[package])
            lines.append(f"{package}=={packages[package]['metadata']['version']} \\\n{hashes}\n")
        (ROOT / "requirements" / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        print(f"requirements/{name}.txt: {len(lines) - 1} packages")
    return 0


def digest(root: Path) -> str:
    """Return a checksum of what the files are made from."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    parts = [project[key] for key in ("requires-python", "dependencies", "optional-dependencies")]
    made_from = [parts, settings["build-system"]["requires"], (root / "constraints.txt").read_text("utf-8")]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def check(root: Path) -> list[str]:
    """Return what is wrong with the files: one sentence each."""
    problems, versions = [], dict[str, dict[str, str]]()
    for name in EXTRAS:
        path = root / "requirements" / f"{name}.txt"
        head, _, body = path.read_text("utf-8").partition("\n")
        if not head.endswith(f" {digest(root)}"):
            problems.append(f"{path}: was made for other requirements; run `make lock`")
        if rest := _LOCKED.sub("", body).strip():
            problems.append(f"{path}: has {rest.splitlines()[0]!r} without version or hash; run `make lock`")
        versions[name] = {found[1]: found[2] for found in _LOCKED.finditer(body)}
    other = sorted(versions["demo"].items() - versions["dev"].items())
    return [*problems, *(f"requirements/demo.txt: has {'=='.join(one)}, dev.txt has not" for one in other)]


def resolve() -> dict[str, Any]:
    """Return what pip would install for developers, by name: file, checksum and metadata of each."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        words += ["--constraint", "constraints.txt", ".[dev]", *build, "editables"]
        subprocess.run([sys.executable, "-m", "pip", *words], cwd=ROOT, check=True)
        found = json.loads(report.read_text("utf-8"))["install"]
    return {_plain(one["metadata"]["name"]): one for one in found}


def closure(packages: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """Return the packages of an environment on any system; one that was not resolved is an error."""
    from pip._vendor.packaging.markers import default_environment
    from pip._vendor.packaging.requirements import Requirement

    found: set[tuple[str, frozenset[str]]] = set()
    for python, (system, more) in itertools.product(PYTHONS, SYSTEMS.items()):
        versions = {"python_version": python, "python_full_version": f"{python}.0"}
        environment = {**default_environment(), **versions, "sys_platform": system, **more}
        seen: set[tuple[str, frozenset[str]]] = set()
        waiting = [("throughtime", frozenset(extras)), ("hatchling", frozenset()), ("editables", frozenset())]
        while waiting:
            name, wanted = one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            if name not in packages:
                raise SystemExit(
                    f"{name} is needed with Python {python} on {system}, and is not resolved here"
                )
            for text in packages[name]["metadata"].get("requires_dist", ()):
                requirement = Requirement(text)
                marker = requirement.marker
                if marker is None or any(marker.evaluate({**environment, "extra": x}) for x in ("", *wanted)):
                    waiting.append((_plain(requirement.name), frozenset(requirement.extras)))
        found |= seen
    return {name for name, _ in found}


def file_sums(package: Mapping[str, Any]) -> list[str]:
    """Return the checksums of all files of a release that a supported Python could install."""
    from pip._internal.models.index import PyPI

    name, version = package["metadata"]["name"], package["metadata"]["version"]
    if _plain(name) in LEFT_OUT:
        return []
    address = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    with urllib.request.urlopen(f"{address}/{_plain(name)}/", context=context, timeout=180) as answer:
        page = _Links()
        page.feed(answer.read().decode())
    own = {file: found for file, found in page.sums.items() if version in _versions(file, name)}
    usable = {found for file, found in own.items() if not _UNUSABLE.search(file)}
    if package["download_info"]["archive_info"]["hashes"]["sha256"] not in usable:
        raise SystemExit(f"{name} {version}: the file that pip found here is not one of the index")
    return sorted(usable)


class _Links(HTMLParser):
    """The files that a page of the index lists, with their checksums."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read the name and the checksum in the address of a link."""
        found = re.search(r"([^/]+)#sha256=([0-9a-f]{64})$", dict(attrs).get("href") or "")
        if tag == "a" and found:
            self.sums[urllib.request.unquote(found[1])] = found[2]


def _versions(file: str, name: str) -> Iterator[str]:
    """Yield the version in the name of a wheel or of a source archive."""
    stem = re.sub(r"\.(whl|tar\.gz|zip|tar\.bz2)$", "", file)
    if file.endswith(".whl"):
        yield stem.split("-")[1]
    elif _plain(stem).startswith(f"{_plain(name)}-"):
        yield stem[len(name) + 1 :]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
