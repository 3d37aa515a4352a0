"""`throughtime serve`: models behind HTTP."""

from __future__ import annotations

import atexit
import os
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.options import Device
from throughtime.cli.output import Outcome, as_command, say
from throughtime.errors import InputError, import_optional

if TYPE_CHECKING:
    from throughtime.serve.models import Models, Served

ACCESS, AMOUNTS = "Who may ask", "How much"
CALLS = {
    "translate": ("/translate", '{{"q": "Hello!", "source": "{source}", "target": "{target}"}}'),
    "fill": ("/fill", '{{"q": "I am ___ ."}}'),
    "tag": ("/tag", '{{"q": "The old man the boats ."}}'),
    "classify": ("/classify", '{{"q": "play some jazz"}}'),
    "compose": ("/compose", '{{"{kind}": {condition}, "num_return_sequences": 3}}'),
}
COMPLETION = ("/v1/completions", '{{"model": "{name}", "prompt": "the", "max_tokens": 40}}')


@as_command
def serve(
    runs: Annotated[list[Path], typer.Argument(help="Folders of trained models.", metavar="RUN...")],
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free one.", min=0, max=65535)] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(help="Ask clients for this key.", envvar="THROUGHTIME_API_KEY", rich_help_panel=ACCESS),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            help="Let pages of this origin ask, as https://example.org; may be given again.",
            metavar="ORIGIN",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    rate_limit: Annotated[
        int | None,
        typer.Option(help="POST requests a minute, of each client.", min=1, rich_help_panel=ACCESS),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds until a request is given up.", min=0.1, max=86_400, rich_help_panel=AMOUNTS
        ),
    ] = 30.0,
    max_characters: Annotated[
        int, typer.Option(help="The most text of one request.", min=1, rich_help_panel=AMOUNTS)
    ] = 20_000,
    batch: Annotated[
        int, typer.Option(help="Texts that are computed together at most.", min=1, rich_help_panel=AMOUNTS)
    ] = 64,
    batch_wait: Annotated[
        float,
        typer.Option(
            help="Milliseconds to wait for others to join.", min=0, max=10_000, rich_help_panel=AMOUNTS
        ),
    ] = 4.0,
    queue: Annotated[
        int, typer.Option(help="Texts that may wait for a model.", min=1, rich_help_panel=AMOUNTS)
    ] = 256,
    log_json: Annotated[bool, typer.Option("--log-json", help="The access log as JSON lines.")] = False,
    device: Device = "auto",
) -> Outcome:
    """Serve models over HTTP until Ctrl-C.

    Translators answer as LibreTranslate does (/translate, /languages, /detect), language models as OpenAI's
    completions (/v1/completions), the others plain JSON (/tag, /classify, /fill, /compose, /forecast). /docs
    tells all of it. A model is called by the name of its folder; a folder that cannot be served is left out
    with a warning. Ctrl-C and SIGTERM finish what runs; a second Ctrl-C does not wait for it.

    [bold]Examples[/bold]

      throughtime serve runs/en-fr

      throughtime serve runs/en-fr runs/fr-en runs/letters --port 8080 --rate-limit 60

      THROUGHTIME_API_KEY=... throughtime serve runs/en-fr --host 0.0.0.0 --log-json
    """
    # Batches have ever new shapes, and oneDNN keeps code for the last 1,024 of them: some 300 MB.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        import_optional(package, feature="serving models", extra="serve")
    from throughtime.serve.app import create_app
    from throughtime.serve.models import Models
    from throughtime.serve.requests import Options
    from throughtime.serve.server import Server, address_of, is_loopback, listen

    if api_key is not None and not api_key.strip():
        raise InputError("--api-key", "is empty; give a key, or leave it out")
    options = Options(
        api_key=api_key,
        cors=tuple(cors or ()),
        rate_limit=rate_limit,
        timeout=timeout,
        max_characters=max_characters,
        batch=batch,
        batch_wait=batch_wait / 1000,
        queue=queue,
        log_json=log_json,
    )
    with listen(host, port) as listener:
        models = Models.open(runs, device)
        for one in models.left_out:
            say(f"warning: {one.run} is left out: {one.reason}")
        app = create_app(models, options)
        address = address_of(listener)
        if not is_loopback(host) and api_key is None:
            say("warning: anyone who reaches this machine may use it; --api-key asks them for a key.")
        say(greeting(models, address))
        server = Server(app, timeout)
        server.run(sockets=[listener])
    service = app.state.service
    if service.ending.hurried:
        # A model may still compute, in a thread of its own; torch aborts if the interpreter ends before it.
        atexit.register(os._exit, 0)
    requests = service.metrics.request_count
    say(f"Stopped after {requests:,} requests.")
    return Outcome(
        {
            "address": address,
            "models": [one.values() for one in models],
            "left_out": [one.values() for one in models.left_out],
            "requests": requests,
        }
    )


def greeting(models: Models, address: str) -> str:
    """The address, the models, and how to ask the first of them."""
    lines = [f"Serving at {address}: open it in a browser to look inside; {address}/docs lists all endpoints"]
    for one in models:
        direction = f", {one.source} to {one.target}" if one.task == "translate" else ""
        lines.append(f"  {one.name}: {one.task}{direction}")
    first = next((one for one in models if one.writes or one.task in CALLS), None)
    if first is None:
        return "\n".join([*lines, f"Try: curl {address}/models"])
    path, body = CALLS.get(first.task, COMPLETION)
    names = {"name": first.name}
    if first.task == "translate":
        names |= {"source": first.source, "target": first.target}
    if first.task == "compose":
        names |= _condition(first)
    said = body.format(**names).replace("'", "'\\''")
    return "\n".join([*lines, f"Try: curl {address}{path} -H 'Content-Type: application/json' -d '{said}'"])


def _condition(served: Served) -> dict[str, str]:
    """A label or a vector for the example request, as JSON."""
    labels = served.model.labels
    if labels is None:
        return {"kind": "vector", "condition": dumps([0] * served.model.width)}
    return {"kind": "label", "condition": dumps(labels.names[0], ensure_ascii=False)}
