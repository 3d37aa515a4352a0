"""The ASGI application: endpoints, limits, the page at /docs, and the form of errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from html import escape
from typing import Any, TextIO

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from throughtime.errors import DamagedModelError, InputError
from throughtime.files import PAGE
from throughtime.serve import insight
from throughtime.serve.bodies import explain
from throughtime.serve.middleware import AccessLog, Limits
from throughtime.serve.models import Models
from throughtime.serve.origins import Origins, content_policy
from throughtime.serve.prediction import build_router
from throughtime.serve.requests import CLIENT_LEFT, Options, RefusalError, check_key, refusal
from throughtime.serve.service import Service, get_service
from throughtime.tasks import TASKS
from throughtime.version import __version__

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request is refused; the error says why, and Retry-After when to try again"},
    503: {"description": "Too many requests are waiting; see Retry-After"},
    504: {"description": "Not finished in time"},
}
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886; text-transform: capitalize }
summary { cursor: pointer; padding: .3rem 0 } summary code { font-weight: 600 }
pre { background: #8881; padding: .8rem; overflow-x: auto } table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
"""
KEY_IN_BODY = ("/translate", "/detect")
HERE = "http://here.invalid"
"""Stands for the address of the server until a client asks."""
UNSERVED = "nothing is served at this path; /docs lists all endpoints"

state = APIRouter(tags=["server"])


def create_app(
    models: Models,
    options: Options = Options(),  # noqa: B008 - it is frozen
    log: TextIO | None = None,
) -> FastAPI:
    """Build an ASGI application that serves these models.

    Files under `page` are served at `/`. The access log goes to `log`, or to stderr.
    """
    service = Service(models, options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="throughtime",
        version=__version__,
        openapi_url=None,  # it also turns off the pages of FastAPI
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service = service
    failures = (RefusalError, InputError, DamagedModelError, RequestValidationError, HTTPException)
    for kind in (*failures, ClientDisconnect):
        app.add_exception_handler(kind, _answer_error)
    for router in (*find_routers(), insight.router):
        app.include_router(router, responses=ERRORS, dependencies=[Depends(require_key)])
    app.include_router(state)
    # Not mounted: a mount at / would take every path, also those of endpoints with another method.
    app.router.default = Page(directory=PAGE, html=True)
    app.add_middleware(Limits, options=options, ending=service.ending)
    if options.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=options.cors, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(Origins, options=options)
    pages = [path.read_text(encoding="utf-8") for path in sorted(PAGE.glob("*.html"))]
    policy = content_policy([*pages, f"<style>{STYLE}</style>"])
    app.add_middleware(AccessLog, service.metrics, service.rates, policy, options.log_json, log)
    return app


def find_routers() -> list[APIRouter]:
    """The endpoints of all tasks: their own, or one that answers texts; several tasks may share one."""
    routers = {}
    for task in TASKS.available().values():
        if task.route is not None:
            routers[task.route] = task.part("route")
        elif task.answers:
            routers[task.name] = build_router(task)
    return [*routers.values()]


async def require_key(request: Request) -> None:
    """Refuse a request without a key before its body is read, where the body cannot contain it."""
    if request.method == "POST" and request.url.path not in KEY_IN_BODY:
        check_key(request, get_service(request).keys)


class Page(StaticFiles):
    """Serves files at paths without an endpoint; other methods than GET and HEAD are refused."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, or raise 404 or 405."""
        response = await super().get_response(path, {**scope, "method": "GET"})
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return response


@state.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """The state of the server, and the models that could not be opened."""
    left_out = [one.name for one in get_service(request).models.left_out]
    return {"status": "ok", **({"left_out": left_out} if left_out else {})}


@state.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """Whether the thread of each model takes requests; 503 if one is stuck or has stopped."""
    models = get_service(request).check_readiness()
    up = all(readiness == "ready" for readiness in models.values())
    return JSONResponse({"status": "ready" if up else "not ready", "models": models}, 200 if up else 503)


@state.get("/models")
async def list_models(request: Request) -> list[dict[str, Any]]:
    """All models with their tasks and abilities, and texts to try them with if anybody may use them."""
    service = get_service(request)
    return [model.values(private=service.keys.required) for model in service.models]


@state.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    service = get_service(request)
    if service.options.protect_metrics:
        check_key(request, service.keys)
    return Response(service.metrics.write(), media_type=CONTENT_TYPE_LATEST)


@state.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Every endpoint with its fields, and how to call it."""
    address = str(request.base_url).rstrip("/")
    return HTMLResponse(_describe(request.app)[1].replace(HERE, escape(address)))


@state.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The same for programs."""
    return Response(_describe(request.app)[0], media_type="application/json")


@lru_cache(maxsize=1)
def _describe(app: FastAPI) -> tuple[str, str]:
    """Return the description of all endpoints as JSON and as a page, which take long to write."""
    description = app.openapi()
    return json.dumps(description, ensure_ascii=False), docs_page(description, HERE)


async def _answer_error(request: Request, error: Exception) -> Response:
    """Return an error as one sentence, in the form that the clients of this path expect."""
    path = request.url.path
    match error:
        case RefusalError():
            more = {"param": error.param, "code": error.code}
            return refusal(path, error.status, error.sentence, error.headers, **more)
        case InputError():
            return refusal(path, 400, str(error))
        case DamagedModelError():
            return refusal(path, 500, str(error))
        case RequestValidationError():
            return refusal(path, 400, explain(error.errors()))
        case HTTPException():
            sentence = UNSERVED if error.status_code == 404 else str(error.detail)
            if error.status_code == 405 and error.headers:
                sentence = f"this path takes {error.headers['Allow']} only; see /docs"
            return refusal(path, error.status_code, sentence, error.headers)
    return refusal(path, CLIENT_LEFT, "the client has disconnected")


def docs_page(description: dict[str, Any], address: str) -> str:
    """Return a page of all endpoints, from the OpenAPI description; it loads nothing else."""
    groups: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["server"])[0]
            groups.setdefault(tag, []).append(_operation(description, path, method, operation, address))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(own)}" for tag, own in groups.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>throughtime: endpoints</title><style>{STYLE}</style>'
        f"<h1>throughtime {escape(description['info']['version'])}</h1>"
        f'<p>The same for machines: <a href="/openapi.json">openapi.json</a>. An error is one sentence: '
        f"<code>{{&quot;error&quot;: ...}}</code>.</p>{sections}</html>"
    )


def curl(path: str, method: str, address: str) -> str:
    """Return a command that calls an endpoint.

    >>> curl("/health", "get", "http://127.0.0.1:8000")
    'curl http://127.0.0.1:8000/health'
    """
    if method == "get":
        return f"curl {address}{path}"
    bodies = (task.requests[path] for task in TASKS.available().values() if path in task.requests)
    body = json.dumps(next(bodies, {}), ensure_ascii=False).replace("'", "'\\''")
    return f"curl {address}{path} -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _operation(
    description: dict[str, Any], path: str, method: str, operation: dict[str, Any], address: str
) -> str:
    text = escape(operation.get("description") or operation.get("summary") or "")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None and "$ref" in body:
        body = description["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> {text.partition('.')[0]}</summary>"
        f"<p>{text}</p>{'' if body is None else _fields(body)}"
        f"<pre>{escape(curl(path, method, address))}</pre></details>"
    )


def _fields(schema: dict[str, Any]) -> str:
    rows = ""
    for name, field in schema.get("properties", {}).items():
        default = field.get("default")
        note = "" if default in (None, [], "") else escape(f"default {json.dumps(default)}")
        note = "required" if name in schema.get("required", []) else note
        rows += f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td><td>{note}</td></tr>"
    return f"<p>{escape(schema.get('description', ''))}</p><table>{rows}</table>"


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(one) for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "object"))
