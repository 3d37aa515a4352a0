"""`throughtime serve`: models behind HTTP."""

from __future__ import annotations

import atexit
import os
from dataclasses import replace
from json import dumps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from throughtime.cli.options import OptionalCount, Runs, select_given
from throughtime.cli.output import Outcome, as_command, flags, name_switches, say
from throughtime.errors import InputError, import_optional
from throughtime.tasks import TASKS

if TYPE_CHECKING:
    from socket import socket

    from throughtime.serve.models import Models, Served
    from throughtime.serve.requests import Options


class LimitOptions(TypedDict):
    """Access, limits and the log: options of the server that are passed on as they are."""

    key_file: Path | None
    protect_metrics: bool
    rate_limit: OptionalCount
    timeout: Annotated[float | None, typer.Option(min=0.1, max=86_400)]
    max_characters: OptionalCount
    max_steps: OptionalCount
    max_answer: Annotated[int | None, typer.Option(min=1_000)]
    batch: OptionalCount
    queue: OptionalCount
    max_connections: Annotated[int | None, typer.Option(min=1, max=100_000)]
    max_connections_per_client: OptionalCount
    header_timeout: Annotated[float | None, typer.Option(min=0.1, max=600)]
    idle_timeout: Annotated[float | None, typer.Option(min=0.1, max=3_600)]
    log_json: bool


@as_command
def serve(
    runs: Runs,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    unix_socket: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    api_key: Annotated[str | None, typer.Option(envvar="THROUGHTIME_API_KEY")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    cors: Annotated[list[str] | None, typer.Option(metavar="ORIGIN")] = None,
    batch_wait: Annotated[float, typer.Option(min=0, max=10_000)] = 4.0,
    device: str = "auto",
    **limits: Unpack[LimitOptions],
) -> Outcome:
    """Serve models over HTTP until Ctrl-C.

    Translators have the interface of LibreTranslate (/translate, /languages, /detect), language models that
    of OpenAI's completions (/v1/completions), the others plain JSON (/tag, /classify, /fill, /compose,
    /forecast); /docs describes them all. The name of a model is the name of its folder; a folder that cannot
    be served is left out with a warning. Ctrl-C and SIGTERM let running requests finish; a second Ctrl-C ends
    them.

    [bold]Examples[/bold]

      throughtime serve runs/en-fr

      throughtime serve runs/en-fr runs/fr-en runs/letters --port 8080 --rate-limit 60

      throughtime serve runs/en-fr --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --key-file keys.txt

    Args:
        host: Address to listen on; 0.0.0.0 means all.
        port: Port to listen on; 0 chooses a free one.
        unix_socket: Listen on this Unix socket instead of an address and port.

    Access:
        tls_cert: Use HTTPS with this certificate (PEM, with its chain).
        tls_key: Key of the certificate (PEM), if it has its own file.
        api_key: Require this key from clients.
        key_file: Require one of the keys in this file: a name and a key in each line.
        protect_metrics: Require a key for /metrics too.
        allow_host: Accept requests for this host name too, such as models.example.org; repeatable. * accepts
            all.
        cors: Accept requests from pages of this origin, such as https://example.org; repeatable.
        rate_limit: Maximum number of requests per client and minute.

    Limits:
        timeout: Maximum number of seconds to answer a request; 30 by default.
        max_characters: Maximum number of characters of a request; 20,000 by default.
        max_steps: Maximum number of steps of a model for a request: tokens or rows, for each hypothesis;
            5,000,000 by default.
        max_answer: Maximum number of bytes of an answer; 16,000,000 by default.
        batch: Maximum number of texts in a batch; 64 by default.
        batch_wait: Milliseconds to wait for more texts of a batch.
        queue: Maximum number of texts that wait for a model; 256 by default.
        max_connections: Maximum number of open connections; 1,000 by default.
        max_connections_per_client: Maximum number of open connections from one address; 256 by default.
        header_timeout: Maximum number of seconds for a header to arrive; 10 by default.
        idle_timeout: Seconds after which an idle connection is closed; 5 by default.

    Output:
        log_json: Write the log as JSON lines.
    """
    # Batches have ever new shapes; oneDNN and torch's wrapper of it keep compiled code for each, by default
    # of the last 1,024: memory would grow for tens of thousands of requests.
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "16")
    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        import_optional(package, feature="serving models", extra="serve")
    from throughtime.serve.connections import fit_connections
    from throughtime.serve.requests import Options
    from throughtime.serve.server import listen, listen_unix, load_tls

    if api_key is not None and not api_key.strip():
        raise InputError("--api-key", "is empty; give a key, or leave it out")
    if limits["protect_metrics"] and api_key is None and limits["key_file"] is None:
        raise InputError("--protect-metrics", "needs --api-key or --key-file")
    access: dict[str, Any] = {"api_key": api_key, "hosts": tuple(allow_host or ()), "cors": tuple(cors or ())}
    options = Options(**access, batch_wait=batch_wait / 1000, **select_given(limits))
    options = replace(options, max_connections=fit_connections(options.max_connections))
    if tls_key is not None and tls_cert is None:
        raise InputError("--tls-key", "needs --tls-cert")
    tls = None if tls_cert is None else load_tls(tls_cert, tls_key)
    with listen(host, port) if unix_socket is None else listen_unix(unix_socket) as listener:
        return run_server(runs, device, options, listener, tls, unix_socket)


def run_server(
    runs: list[Path], device: str, options: Options, listener: socket, tls: Any, unix_socket: Path | None
) -> Outcome:
    """Load the models and serve them until the server is stopped."""
    from throughtime.serve.app import create_app
    from throughtime.serve.models import Models
    from throughtime.serve.origins import is_loopback
    from throughtime.serve.server import Server, format_address
    from throughtime.serve.service import prepare_interpreter

    models = Models.open(runs, device, trust_changed=flags.trust_changed)
    for refused in models.left_out:
        say(f"warning: {refused.run} is left out: {name_switches(refused.reason, ['trust_changed'])}")
    app = create_app(models, options)
    keyless = options.api_key is None and options.key_file is None
    if keyless and unix_socket is None and not is_loopback(listener.getsockname()[0]):
        say("warning: anyone who can reach this machine can use the server; require keys with --key-file.")
    address = format_address(listener, "http" if tls is None else "https")
    say(greeting(models, address, unix_socket))
    prepare_interpreter()
    Server(app, options.timeout, tls).run(sockets=[listener])
    service = app.state.service
    if service.ending.hurried:
        # A model may still compute in its thread; torch aborts if the interpreter ends before it.
        atexit.register(os._exit, 0)
    requests = service.metrics.request_count
    say(f"Stopped after {requests:,} requests.")
    values: dict[str, Any] = {"address": address, "requests": requests}
    values |= {} if unix_socket is None else {"unix_socket": str(unix_socket)}
    listed: dict[str, Any] = {"models": models, "left_out": models.left_out}
    return Outcome(values | {name: [model.values() for model in those] for name, those in listed.items()})


def greeting(models: Models, address: str, unix_socket: Path | None = None) -> str:
    """The address, the models, and how to ask the first of them."""
    curl = "curl" if unix_socket is None else f"curl --unix-socket {quote(str(unix_socket))}"
    look = f"{address}: open it in a browser to look inside; {address}/docs lists all endpoints"
    lines = [f"Serving at {unix_socket or look}"]
    for model in models:
        direction = f", {model.source} to {model.target}" if model.task == "translate" else ""
        lines.append(f"  {model.name}: {model.task}{direction}")
    requests = (example_request(model) for model in models)
    path, body = next(filter(None, requests), ("/models", None))
    if body is None:
        return "\n".join([*lines, f"Try: {curl} {address}{path}"])
    example = quote(dumps(body, ensure_ascii=False))
    lines.append(f"Try: {curl} {address}{path} -H 'Content-Type: application/json' -d {example}")
    return "\n".join(lines)


def example_request(served: Served) -> tuple[str, dict[str, Any]] | None:
    """The path and the body of a request to a model; None if it depends on the data of the model."""
    path, example = next(iter(TASKS[served.task].requests.items()), ("", {"series": None}))
    if "series" in example:
        return None
    body = {**example} | ({"model": served.name} if "model" in example else {})
    if "target" in body:
        body |= {"source": served.source, "target": served.target}
    if "label" in body:
        del body["label"]
        labels = served.model.labels
        condition = {"vector": [0] * served.model.width} if labels is None else {"label": labels.names[0]}
        body = condition | body
    return path, body
