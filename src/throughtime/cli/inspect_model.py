"""`throughtime inspect RUN "sentence"`: what a trained model does with a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from throughtime.cli.inputs import is_run, load_model, one_line, read_task_name
from throughtime.cli.options import OptionalCount, Run, check_pictures, refuse
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, draw_figure, warn
from throughtime.cli.usage import RunFirst
from throughtime.errors import InputError, ThroughtimeError
from throughtime.inspection import VIEWS
from throughtime.runtime.keywords import MAX_SEED
from throughtime.tasks import TASKS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from throughtime.inspection.gates import LayerGates
    from throughtime.inspection.translation import BeamTree

Draw = Callable[..., None]
"""Draws the figure of this name, if there is a file to draw to."""
NEIGHBOURS = 4
SHOWN_UNITS = 4
BELONGS = {
    "num_beams": ("beam", "searches"),
    "max_length": ("searches",),
    "seed": ("searches",),
    "layer": ("gates",),
    "neighbours": ("embedding",),
    "side": ("embedding",),
    "plot": ("attention", "beam", "gates", "embedding"),
}
"""The views that each of the other options belongs to."""


class InspectsRun(RunFirst):
    """The command `inspect RUN`; its help lists only the views that the model of this run has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the command line: `--help` is handled before its arguments are parsed."""
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, without the views that the model of the run does not have."""
        run = next((word for word in ctx.meta.get(__name__, ()) if is_run(word)), None)
        shown = copy(self)
        with contextlib.suppress(ThroughtimeError):
            if run is not None:
                from throughtime.inspection import find_views

                offered = find_views(load_model(Path(run), "cpu"))
                params: list[Any] = [copy(param) for param in self.params]
                for param in params:  # options, and arguments that are never hidden
                    belongs = set(BELONGS.get(param.name, [param.name]))
                    param.hidden = belongs <= {*VIEWS} and belongs.isdisjoint(offered)
                what = f"is {TASKS[read_task_name(Path(run))].title}"
                shown.params = params
                shown.help = f"{run} {what}, and has {_offer(offered)}." if offered else _none(run, what)
        super(InspectsRun, shown).format_help(ctx, formatter)


class ViewOptions(TypedDict):
    """Which view to show, and its options.

    Args:
        num_beams: With --searches, --beam: number of beams.
        max_length: With --searches: maximum number of tokens; by default 20 for language models.
        seed: With --searches: seed of the random numbers; 0 by default.
        layer: With --gates: show all gates of this layer; 1 is the first.
        neighbours: With --embedding: number of neighbours; 4 by default.
        side: With --embedding: side of a translator, source or target.

    What to show:
        attention: Translators: source words that each word attended to.
        beam: Translators: what the beam search kept and cut, and why.
        searches: Translators, language models: all searches side by side.
        gates: Gates of every unit through time: which units remember.
        embedding: Nearest neighbours of the words, and a map of them.
    """

    attention: bool
    beam: bool
    searches: bool
    gates: bool
    embedding: bool
    num_beams: Annotated[int | None, typer.Option(min=1, max=50)]
    max_length: Annotated[int | None, typer.Option(min=1, max=1000)]
    seed: Annotated[int | None, typer.Option(min=0, max=MAX_SEED)]
    layer: OptionalCount
    neighbours: OptionalCount
    side: str | None
    plot: Path | None


@as_command
def inspect_model(
    run: Run,
    sentence: Annotated[str | None, typer.Argument(metavar="SENTENCE", show_default=False)] = None,
    *,
    device: str = "auto",
    **options: Unpack[ViewOptions],
) -> Outcome:
    """Look at what a trained model does with a sentence; `model` may be left out.

    `inspect RUN --help` shows the views that the model of this run has.

    [bold]Examples[/bold]

      throughtime inspect runs/en-fr "My mother is reading." --attention --plot attention.png

      throughtime inspect model runs/en-fr "My mother is reading." --beam --plot beam.png

      throughtime inspect runs/en-fr "My mother is reading." --searches

      throughtime inspect runs/english "she reads a letter" --gates --plot gates.png

      throughtime inspect runs/english "mother garden red" --embedding --plot words.png

    Args:
        sentence: Text to read.
    """
    chosen = [view for view in VIEWS if options.get(view)]
    for name, views in BELONGS.items():
        if not {*views} & {*chosen} and (chosen or name != "plot"):
            refuse(f"goes with {_offer([*views], 'or')}; leave it out", **{name: options.get(name)})
    check_pictures(options["plot"])
    model = load_model(run, device)
    _check_view(run, model, chosen)
    if sentence is None:
        example = f'throughtime inspect {quote(str(run))} "a sentence" --{chosen[0]}'
        raise InputError(str(run), f"give a sentence, as in `{example}`")
    draw = partial(draw_figure, options["plot"])
    try:
        outcome = SHOW[chosen[0]](model, sentence, options, draw)
    except InputError as error:
        if error.where != "model":
            raise
        raise InputError(str(run), error.problem) from None
    if sentence:
        warn(model.input_warnings([sentence]))
    return Outcome({"run": str(run), "sentence": sentence, **outcome.values}, outcome.shown)


def _check_view(run: Path, model: Any, chosen: list[str]) -> None:
    """Raise unless exactly one view was chosen that the model has; the message lists the views it has."""
    from throughtime.inspection import find_views

    what, offered = f"is {TASKS[read_task_name(run)].title}", find_views(model)
    if not offered:
        raise InputError(str(run), _none("", what).strip())
    if not chosen:
        raise InputError(str(run), f"{what}; choose what to see: {_offer(offered, 'or')}")
    if lacking := [view for view in chosen if view not in offered]:
        raise InputError(str(run), f"{what} without {' and '.join(lacking)}; it has {_offer(offered)}")
    if len(chosen) > 1:
        where = " and ".join(f"--{view}" for view in chosen)
        raise InputError(where, f"can be seen one at a time; choose {_offer(offered, 'or')}")


def _offer(views: list[str], link: str = "and") -> str:
    *first, last = [f"--{view}" for view in views]
    return f"{', '.join(first)} {link} {last}" if first else last


def _none(run: str, what: str) -> str:
    return f"{run} {what} that has none of these views: they are for recurrent models that read text"


def _attention(model: Any, sentence: str, options: ViewOptions, draw: Draw) -> Outcome:
    from throughtime.inspection.translation import attention

    best = attention(model, sentence)
    alignment = best.alignment
    assert alignment is not None, "models without attention are refused"
    draw("attention", best)
    table = build_table("word", "attended to", "weight", **BOLD)
    for word, row in zip(alignment.target, alignment.weights, strict=True):
        looks = sorted(zip(row, alignment.source, strict=True), reverse=True)[:3]
        shown = [(source, f"{weight:.2f}") for weight, source in looks if weight >= 0.05]
        table.add_row(word, *(", ".join(column) for column in zip(*shown, strict=True)))
    return Outcome(best.to_dict(), [best.text, "", table])


def _beam(model: Any, sentence: str, options: ViewOptions, draw: Draw) -> Outcome:
    from throughtime.inspection.translation import beam_tree

    tree = beam_tree(model, sentence, options["num_beams"])
    draw("beam", tree)
    return Outcome(tree.to_dict(), _render_tree(tree))


def _render_tree(tree: BeamTree) -> list[RenderableType]:
    from rich.markup import escape

    from throughtime.text.texts import format_signed

    table = build_table("step", "kept", "cut", **BOLD)
    for step in range(1, tree.steps + 1):
        nodes = [node for node in tree.nodes if node.step == step]
        cells: dict[bool, list[str]] = {False: [], True: []}
        for node in nodes:
            label = f"[bold]*{escape(node.label)}[/bold]" if node.best else escape(node.label)
            cells[node.status == "cut"].append(label)
        table.add_row(str(step), *map("  ".join, cells.values()))
    best = tree.results[0]
    title = f"{escape(best.text)}  (beam of {tree.width}, score {format_signed(best.score)})"
    note = "* marks the way to the best. Why each was kept or cut is in --json and on the page of `serve`."
    return [title, "", table, "", note]


def _searches(model: Any, sentence: str, options: ViewOptions, draw: Draw) -> Outcome:
    from rich.text import Text

    from throughtime.inspection.searches import compare_searches
    from throughtime.text.texts import format_signed

    limits = {name: options[name] for name in ("max_length", "num_beams")}
    comparison = compare_searches(model, sentence, **limits, seed=options["seed"] or 0)
    table = build_table("search", ">ln P", ">score", ">model steps", ">hypotheses", "text", **BOLD)
    for row in comparison.rows:
        numbers = [row.log_prob, row.score]
        cells = ["-" if number is None else format_signed(number) for number in numbers]
        cut = " …" if row.ended is False else ""
        text = f"cannot run: {row.note}" if row.text is None else f"{one_line(row.text)}{cut}"
        table.add_row(row.search, *cells, f"{row.steps:,}", f"{row.hypotheses:,}", Text(text))
    notes = [f"{row.search}: {row.note}" for row in comparison.rows if row.note and row.text is not None]
    columns = (
        "score is what a search ranks its results by; hypotheses is how many the model continued in all its "
        f"steps. … marks a text that was cut at {comparison.max_length} tokens."
    )
    return Outcome(comparison.to_dict(), [table, "", *notes, columns])


def _gates(model: Any, sentence: str, options: ViewOptions, draw: Draw) -> Outcome:
    from throughtime.inspection.gates import unit_gates

    layers, number = unit_gates(model, sentence), options["layer"]
    if number is None:
        draw("keep_gates", layers, title=f"“{sentence}”")
    elif number > len(layers):
        names = ", ".join(f"{position} {layer.name}" for position, layer in enumerate(layers, 1))
        raise InputError("--layer", f"is {number}, but the model has {len(layers)} layers: {names}")
    else:
        layers = [layers[number - 1]]
        draw("layer_gates", layers[0], title=f"{layers[0].name}, “{sentence}”")
    values = {"layers": [layer.to_dict(len(layer.order)) for layer in layers]}
    return Outcome(values, [_render_gates(layers), "", _HALF_LIFE])


_HALF_LIFE = (
    "A unit's half-life: the number of tokens after which half of its state would be left if the gate that "
    "keeps it always had its average over the sentence."
)


def _render_gates(layers: list[LayerGates]) -> Table:
    rows = []
    for layer in layers:
        lives, columns = layer.half_lives, ["no gate keeps its state", ""]
        if lives is not None:
            ends = (layer.order[:SHOWN_UNITS], layer.order[: -SHOWN_UNITS - 1 : -1])
            columns = ["  ".join(f"{unit} ({lives[unit]:.1f})" for unit in end) for end in ends]
        rows.append((f"{layer.name}, {layer.cell}", str(len(layer.order)), *columns))
    return build_table("layer", "units", "longest half-life: unit (tokens)", "shortest", rows=rows, **BOLD)


def _embedding(model: Any, sentence: str, options: ViewOptions, draw: Draw) -> Outcome:
    from throughtime.inspection.embeddings import embedding_map

    k = options["neighbours"] or NEIGHBOURS
    neighbourhood = embedding_map(model, sentence, k=k, side=options["side"])
    draw("embedding", neighbourhood)
    rows = [
        (word.token, "  ".join(f"{near.token} {near.similarity:.2f}" for near in word.nearest))
        for word in neighbourhood.neighbours
    ]
    return Outcome(neighbourhood.to_dict(), [build_table("word", "nearest (cosine)", rows=rows, **BOLD)])


SHOW = dict(zip(VIEWS, (_attention, _beam, _searches, _gates, _embedding), strict=True))
"""How each view is shown."""
