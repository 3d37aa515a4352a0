"""Train, load, evaluate and export models: what Python users call, and what the command line calls too."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from throughtime.errors import InputError
from throughtime.run import ProgressKind, Training
from throughtime.tasks import TASKS, Task, Trained
from throughtime.tasks.base import load as open_model
from throughtime.tasks.saved import SavedRun, check_format

if TYPE_CHECKING:
    from throughtime.results import Scored
    from throughtime.tasks.classify.model import Classifier
    from throughtime.tasks.classify.runner import TextClassifier
    from throughtime.tasks.compose.model import Composer
    from throughtime.tasks.fill.model import Filler
    from throughtime.tasks.fill.runner import BlankFiller
    from throughtime.tasks.forecast.model import SeriesForecaster
    from throughtime.tasks.language.model import RecurrentLanguage
    from throughtime.tasks.language_model import LanguageModel
    from throughtime.tasks.ngram.model import NgramLanguageModel
    from throughtime.tasks.tag.model import Tagger
    from throughtime.tasks.tag.runner import SentenceTagger
    from throughtime.tasks.translate.model import Translator
    from throughtime.tasks.translate.translation import SentenceTranslator

    class Model(  # type: ignore[misc]  # networks and settings differ by task
        SentenceTranslator,
        LanguageModel,
        SentenceTagger,
        BlankFiller,
        TextClassifier,
        Composer,
        SeriesForecaster,
    ):
        """A trained model. It has only those prediction methods that belong to its task.

        Each prediction method takes one input or a list of them, and returns a list with one answer for each.
        """

        config: Any

        def score(self, texts: Any, *, prompt: str = "") -> list[Scored]:
            """Return how likely each token is, after a prompt if there is one; a translator scores pairs."""
            ...

else:
    from throughtime.model import TaskModel as Model


@overload
def train(task: Literal["ngram"], data: Any = None, **options: Any) -> NgramLanguageModel: ...
@overload
def train(task: Literal["language"], data: Any = None, **options: Any) -> RecurrentLanguage: ...
@overload
def train(task: Literal["translate"], data: Any = None, **options: Any) -> Translator: ...
@overload
def train(task: Literal["tag"], data: Any = None, **options: Any) -> Tagger: ...
@overload
def train(task: Literal["fill"], data: Any = None, **options: Any) -> Filler: ...
@overload
def train(task: Literal["classify"], data: Any = None, **options: Any) -> Classifier: ...
@overload
def train(task: Literal["compose"], data: Any = None, **options: Any) -> Composer: ...
@overload
def train(task: Literal["forecast"], data: Any = None, **options: Any) -> SeriesForecaster: ...
@overload
def train(task: type[Task[Trained]], data: Any = None, **options: Any) -> Trained: ...
@overload
def train(task: str, data: Any = None, **options: Any) -> Any: ...
def train(
    task: str | type[Task[Any]],
    data: Any = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    init_from: Path | str | None = None,
    skip_bad: bool = False,
    accept_changed_data: bool = False,
    network: Any = None,
    trust_changed: bool = False,
    progress: ProgressKind = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Any:
    """Train a model and return it: `throughtime train` in Python.

    `task` is a name, or the declaration of a task, which also tells type checkers the type of the model.
    `data` is a name from `throughtime data list`, a path, a list of records, a DataFrame, a dict of splits,
    or the result of `open_dataset`. Other keywords are settings; `throughtime train TASK --show-config` lists
    them. Without `out`, the run is in a temporary folder that is deleted together with the model;
    `model.save(path)` keeps it. `resume` continues the run in `out`. If files of its data have changed since,
    it also needs `accept_changed_data`. `overwrite` replaces the run in `out`; a folder with anything else in
    it is refused. `quiet` prints nothing but warnings.

    `network` replaces the network of the task: a module, a function (or class) that builds one from the
    configuration and the assets of the task, such as its vocabularies, or the name of a network that another
    package registers. To load the model, a module or function has to be given again. To change only the
    cell, give your own a name: `throughtime.cells.CELLS.add("leaky", Leaky)`, then `cell="leaky"`.
    `trust_changed` resumes a run, or starts from one, although its files changed after they were saved.

    >>> import throughtime as tt
    >>> lines = ["the cat sleeps", "the dog sleeps", "a cat runs"] * 20
    >>> model = tt.train("language", lines, epochs=1, batch_size=4, hidden_size=8, quiet=True)
    >>> len(model.score(["the cat runs"])[0].tokens)
    4
    """
    if callable(cell := settings.get("cell")):
        shown = getattr(cell, "__name__", type(cell).__name__)
        raise InputError(
            "cell",
            f"is the class or function {shown}, expected a name, which the saved model can keep; give it one "
            f'with throughtime.cells.CELLS.add("{shown.lower()}", {shown}) and use cell="{shown.lower()}"',
        )
    place = None if out is not None else tempfile.mkdtemp(prefix="throughtime-")
    run = Training(
        task if isinstance(task, str) else task.name,
        {**settings, **({} if data is None else {"data": data})},
        out=Path(place, "run") if place is not None else out,
        resume=resume,
        overwrite=overwrite,
        init_from=init_from,
        skip_bad=skip_bad,
        accept_changed_data=accept_changed_data,
        network=network,
        trust_changed=trust_changed,
        progress="none" if quiet else progress,
    )
    try:
        run.start()
        model = open_model(run.out, device=str(settings.get("device", "auto")), network=network)
    except BaseException:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if not isinstance(data, str | Path):
        model.training_data = data
    if place is not None:
        weakref.finalize(model, shutil.rmtree, place, ignore_errors=True)
    return model


class LoadOptions(TypedDict, total=False):
    """Further keywords of `load`."""

    network: Any
    trust_changed: bool


@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["ngram"], **options: Unpack[LoadOptions]
) -> NgramLanguageModel: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["language"], **options: Unpack[LoadOptions]
) -> RecurrentLanguage: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["translate"], **options: Unpack[LoadOptions]
) -> Translator: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["tag"], **options: Unpack[LoadOptions]
) -> Tagger: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["fill"], **options: Unpack[LoadOptions]
) -> Filler: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["classify"], **options: Unpack[LoadOptions]
) -> Classifier: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["compose"], **options: Unpack[LoadOptions]
) -> Composer: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: Literal["forecast"], **options: Unpack[LoadOptions]
) -> SeriesForecaster: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: type[Task[Trained]], **options: Unpack[LoadOptions]
) -> Trained: ...
@overload
def load(
    path: Path | str, device: str = "auto", *, task: None = None, **options: Unpack[LoadOptions]
) -> Model: ...
@overload
def load(path: Path | str, device: str = "auto", *, task: str, **options: Unpack[LoadOptions]) -> Any: ...
def load(
    path: Path | str,
    device: str = "auto",
    *,
    task: str | type[Task[Any]] | None = None,
    network: Any = None,
    trust_changed: bool = False,
) -> Any:
    """Open a trained model, whatever its task: `tt.load("RUN").generate("the time")`.

    The model runs on a GPU if there is one, even if it was trained on a CPU, unless `device="cpu"`. With
    `task`, a name or a declaration, models of other tasks are refused, and type checkers know the type of
    the result. If the model was
    trained with your own `network`, pass it again. If a file of the folder has changed since the model was
    saved, the folder is refused, unless `trust_changed` is set.
    """
    task = task if task is None or isinstance(task, str) else task.name
    return open_model(path, device, task=task, network=network, trust_changed=trust_changed)


def export(
    run: Path | str | Model | Sequence[Path | str | Model],
    out: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - the option's name
    int8: bool = False,
    weights: str | None = None,
    sample: bool = True,
    trust_changed: bool = False,
) -> dict[str, Any]:
    """Write the model of a run to a folder that runs without torch; see `Predictor.export`.

    With `format="arpa"`, `out` is the file to write for an n-gram model. With `format="html"`, it is one
    HTML file, and `run` may be a list of runs: the file holds all their models, and a few
    of their data unless `sample` is False. Without a format, a name that ends in .html or .arpa tells it.
    A run may also be a model that is loaded already.
    """
    from throughtime.graphs import check_options, choose_format

    runs = list(run) if isinstance(run, list | tuple) else [run]
    for one in runs:
        is_model = getattr(one, "task", None) in TASKS and hasattr(one, "config")
        if not isinstance(one, str | Path) and not is_model:
            problem = f"has {type(one).__name__!r}, expected a trained model or the folder of one"
            raise InputError("run", problem)
    chosen = choose_format(format, out)
    check_options(chosen, int8, weights, sample)
    if len(runs) != 1 and chosen != "html":
        raise InputError("run", f"has {len(runs)} runs; only the html format holds several models")
    opened: list[Any] = [SavedRun.open(one) if isinstance(one, str | Path) else one for one in runs]
    for one, saved in zip(runs, opened, strict=True):
        check_format(one, saved.task, chosen, format)
    models = [
        saved.load("cpu", trust_changed=trust_changed) if isinstance(saved, SavedRun) else saved
        for saved in opened
    ]
    if chosen == "html":
        from throughtime.tasks.pages import export_html

        return export_html(models, out, weights=weights or "int8", sample=sample)
    values: dict[str, Any] = models[0].export(out, format=chosen, int8=int8)
    return values


def import_arpa(path: Path | str, *, tokens: str = "space") -> NgramLanguageModel:
    """Read the ARPA file of an n-gram model, such as KenLM and SRILM write; `save` makes it a model folder.

    `tokens` names the tokenizer that splits text into the words of the file.
    """
    from throughtime.tasks.ngram.model import NgramLanguageModel

    return NgramLanguageModel.read_arpa(path, tokens=tokens)
