"""A trained model is a folder, as with Hugging Face: JSON, safetensors and text, without pickle.

config.json             format, version, task and configuration
model.safetensors       its tensors
tokenizer files         see throughtime.text.codec
counted.safetensors     the counted model beside the network of a language model
shortlist.safetensors   likely translations of each source token, of some translators
generation_config.json  default options for generation
README.md               a model card with its measured scores
metrics.jsonl           one line per measurement
seen.safetensors        which records it was trained on; see throughtime.data.seen
data.json               whether bad records of its data were skipped
manifest.json           the SHA-256 sum of each file that the model is loaded from
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from throughtime.errors import InputError
from throughtime.files import has_content, parse_json, path_exists, read_json, whole_file, whole_folder
from throughtime.manifest import check_files, check_sums, find_foreign, replace_files, write_manifest
from throughtime.version import __version__

if TYPE_CHECKING:
    import numpy as np

EXISTS = (
    "exists already; choose another folder, set resume to continue its run, or set overwrite to replace it"
)
"""The problem of a folder in which a run is to begin."""
FORMAT = "throughtime"
VERSION = 1
DATA_FILE = "data.json"
MAX_HEADER_BYTES = 16_000_000
"""Bytes that the names and shapes of tensors may take."""
MAX_TENSORS = 10_000

MAPPED = {"I64": "<i8", "F64": "<f8", "F32": "<f4"}
"""The types of arrays that can be used where they stand in a file."""


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a model. Reading raises an error if a file is damaged, foreign or too new."""

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> ModelFolder:
        """Return the model folder at this path, or raise an error that says why it is not one."""
        folder = Path(path)
        if not path_exists(folder):
            raise InputError(str(path), "no such model folder; `throughtime train ... --out` makes one")
        if not folder.is_dir():
            raise InputError(str(path), "is a file, expected the folder of a trained model")
        if not (folder / "config.json").is_file() and (folder / "export.json").is_file():
            raise InputError(
                str(path), "is an export, which `throughtime.runtime.load` runs in Python; give its run here"
            )
        if not (folder / "config.json").is_file():
            raise InputError(str(path), "holds no config.json, so it is not the folder of a trained model")
        check_files(folder)
        return cls(folder)

    @classmethod
    @contextlib.contextmanager
    def create(cls, path: Path | str) -> Iterator[Self]:
        """Yield a new folder to fill, which appears at `path` complete and with a manifest, or not at all."""
        with whole_folder(path) as temporary:
            yield cls(temporary)
            write_manifest(temporary)

    @contextlib.contextmanager
    def replace(self) -> Iterator[Self]:
        """Yield an empty folder whose files then replace those of this one, and update the manifest."""
        with replace_files(self.path) as new:
            yield type(self)(new)

    def check(self, *, trust_changed: bool = False) -> None:
        """Refuse files that changed since the model was saved, unless they are trusted."""
        check_sums(self.path, trust_changed=trust_changed)

    def write_config(self, task: str, config: Mapping[str, Any]) -> None:
        """Write the task, its configuration and the version that wrote it."""
        head = {"format": FORMAT, "version": VERSION, "task": task, "throughtime": __version__}
        self.write_json("config.json", {**head, "config": dict(config)})

    def read_config(self) -> tuple[str, dict[str, Any]]:
        """Return the name of the task and its configuration."""
        values = self.read_json("config.json")
        where = str(self.path / "config.json")
        if values.get("format") != FORMAT:
            raise InputError(
                where, f"was not written by throughtime (its format is {values.get('format')!r})"
            )
        version = values.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise InputError(
                where, f"has version {version!r}, this release reads up to {VERSION}; use a newer release"
            )
        task, config = values.get("task"), values.get("config")
        if not isinstance(task, str) or not isinstance(config, dict):
            raise InputError(
                where, "lacks its 'task' or 'config'; the file is damaged, train the model again"
            )
        return task, config

    def write_skipping(self) -> None:
        """Note that bad records of the training data were skipped."""
        self.write_json(DATA_FILE, {"skip_bad": True})

    @property
    def skips_bad(self) -> bool:
        """Whether bad records of the training data were skipped."""
        return (self.path / DATA_FILE).is_file() and self.read_json(DATA_FILE).get("skip_bad") is True

    def write_tensors(
        self, tensors: Mapping[str, np.ndarray[Any, Any]], name: str = "model.safetensors"
    ) -> None:
        """Write the tensors of the model."""
        from safetensors.numpy import save

        with whole_file(self.path / name, "wb") as file:
            file.write(save(dict(tensors), metadata={"format": FORMAT}))

    def write_tensor_files(self, files: Mapping[str, Path]) -> None:
        """Write files of int64 numbers as the tensors of the model, the same bytes as `write_tensors`.

        They are copied part by part, so that they may be larger than memory.
        """
        header: dict[str, Any] = {"__metadata__": {"format": FORMAT}}
        begin = 0
        for name in sorted(files):
            size = files[name].stat().st_size
            header[name] = {"dtype": "I64", "shape": [size // 8], "data_offsets": [begin, begin + size]}
            begin += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with whole_file(self.path / "model.safetensors", "wb") as target:
            target.write(len(text).to_bytes(8, "little") + text)
            for name in sorted(files):
                with files[name].open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)

    def read_tensors(self, framework: str = "numpy") -> dict[str, Any]:
        """Return the tensors of the model: numpy arrays, or with "pt" tensors that are read when used."""
        if not (self.path / "model.safetensors").is_file():
            unfinished = (self.path / "checkpoints").is_dir()
            cure = "its training has not finished; resume it" if unfinished else "train the model again"
            raise InputError(str(self.path / "model.safetensors"), f"is missing; {cure}")
        cure = "the file is damaged or not a safetensors file"
        with self._open("model.safetensors", framework, cure) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict

    def map_tensors(self, name: str = "model.safetensors") -> dict[str, np.ndarray[Any, Any]]:
        """Return the tensors of a file as views of one mapping of it; parts are read when used."""
        import numpy as np

        path, cure = self.path / name, "the file is damaged or not a safetensors file"
        if not path.is_file() and name == "model.safetensors":
            return self.read_tensors()  # says what is missing
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        with self._open(path.name, "numpy", cure) as file, path.open("rb") as start:
            length = int.from_bytes(start.read(8), "little")
            header = json.loads(start.read(length))
            values = np.memmap(start, np.uint8, "r")[8 + length :]
            for name in file.keys():  # noqa: SIM118 - no dict
                about = header[name]
                stored = values[slice(*about["data_offsets"])]
                arrays[name] = stored.view(MAPPED[about["dtype"]]).reshape(about["shape"])
        return arrays

    def write_arrays(
        self, name: str, arrays: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]
    ) -> None:
        """Write a safetensors file of the folder: arrays, and values for JSON about them."""
        from safetensors.numpy import save

        with whole_file(self.path / name, "wb") as file:
            file.write(save(dict(arrays), metadata={Path(name).stem: json.dumps(about)}))

    @contextlib.contextmanager
    def read_arrays(self, name: str, cure: str) -> Iterator[tuple[dict[str, np.ndarray[Any, Any]], Any]]:
        """Yield what `write_arrays` wrote, for a block that fails if the content makes no sense."""
        with self._open(name, "numpy", cure) as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
            yield arrays, parse_json(file.metadata()[Path(name).stem])

    @contextlib.contextmanager
    def _open(self, name: str, framework: str, cure: str) -> Iterator[Any]:
        """Open a safetensors file; what fails in the block is damage to it, and `cure` says what to do."""
        from safetensors import SafetensorError, safe_open

        path = self.path / name
        try:
            with path.open("rb") as start:
                header = int.from_bytes(start.read(8), "little")
            if header > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {header:,} bytes")
            with safe_open(path, framework=framework) as file:
                if (count := len(file.keys())) > MAX_TENSORS:
                    raise ValueError(f"{count:,} tensors")
                yield file
        except (SafetensorError, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise InputError(str(path), f"cannot be read ({error}); {cure}") from None

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a JSON file of the folder, indented."""
        with whole_file(self.path / name) as file:
            json.dump(values, file, ensure_ascii=False, indent=2)
            file.write("\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Return what a JSON file of the folder holds."""
        path = self.path / name
        try:
            values = read_json(path, "the file is damaged")
        except FileNotFoundError:
            raise InputError(str(path), "is missing; the model folder is incomplete") from None
        if not isinstance(values, dict):
            raise InputError(str(path), "holds no JSON object; the file is damaged")
        return values

    def write_card(self, text: str) -> None:
        """Write README.md, the model card."""
        with whole_file(self.path / "README.md") as file:
            file.write(text)

    def write_metrics(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write metrics.jsonl."""
        with whole_file(self.path / "metrics.jsonl") as file:
            for line in lines:
                file.write(json.dumps(dict(line), ensure_ascii=False) + "\n")


def check_replaceable(out: Path) -> None:
    """Raise an error unless `out` is missing, empty or the folder of a run, with nothing else in it."""
    if not has_content(out):
        return
    if out.is_symlink() or Path.cwd().is_relative_to(out.resolve()):
        raise InputError("out", f"{out} is a link or the current folder, which cannot be overwritten")
    ModelFolder.at(out).read_config()
    if (foreign := find_foreign(out)) is not None:
        raise InputError(
            "out", f"{out} holds {foreign}, which is no file of a run; move it, or choose another folder"
        )


def set_aside(out: Path) -> None:
    """Move a run out of the way of the one that replaces it; `settle_replacement` ends this."""
    settle_replacement(out)
    if not out.exists():
        return
    aside = _aside(out)
    # What a killed process had set aside has a model, and what was to replace it has none yet.
    shutil.rmtree(out) if aside.exists() else out.rename(aside)


def settle_replacement(out: Path) -> None:
    """Delete the run that was set aside if the new one has a model; bring it back if that has nothing."""
    aside = _aside(out)
    if not aside.exists():
        return
    if (out / "model.safetensors").is_file():
        shutil.rmtree(aside)
    elif not any((out / "checkpoints").glob("step-*")):
        if out.exists():
            shutil.rmtree(out)
        aside.rename(out)


def _aside(out: Path) -> Path:
    return out.with_name(f".{out.name}.replaced")
