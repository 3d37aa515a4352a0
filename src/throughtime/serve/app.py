"""The application: models, endpoints, limits, and what an error looks like."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from throughtime.errors import InputError
from throughtime.registry import Registry
from throughtime.serve import insight
from throughtime.serve.docs import docs_page, without_validation_errors
from throughtime.serve.middleware import AccessLog, Limits
from throughtime.serve.models import Models
from throughtime.serve.requests import CLIENT_LEFT, Options, RefusalError, explain, refusal
from throughtime.serve.service import Service, get_service
from throughtime.version import __version__

PAGE = Path(__file__).with_name("page")
ROUTES = Registry[APIRouter](
    "task with endpoints",
    "throughtime.routes",
    {
        "translate": "throughtime.serve.translation:router",
        "language": "throughtime.serve.completions:router",
        "ngram": "throughtime.serve.completions:router",
        "tag": "throughtime.serve.prediction:router",
        "classify": "throughtime.serve.prediction:router",
        "fill": "throughtime.serve.prediction:router",
        "compose": "throughtime.serve.prediction:router",
        "forecast": "throughtime.serve.forecasting:router",
    },
)
"""The endpoints of each task. A router reaches the models through `service.admit(request, texts)`."""
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Bad request, in one sentence"},
    401: {"description": "The API key is missing or wrong (under /v1)"},
    403: {"description": "The API key is missing or wrong"},
    404: {"description": "No such model"},
    413: {"description": "Too much at once"},
    429: {"description": "Too often; Retry-After says when to come again"},
    503: {"description": "Too many wait; Retry-After says when to come again"},
    504: {"description": "Not done in time"},
}
UNSERVED = "nothing is served at this path; /docs lists all that is"

state = APIRouter(tags=["server"])


def create_app(
    models: Models,
    options: Options = Options(),  # noqa: B008 - it is frozen
    log: TextIO | None = None,
) -> FastAPI:
    """An ASGI application that serves these models.

    Files under `serve/page` are served at `/`. The access log goes to `log`, or to stderr.
    """
    service = Service(models, options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="throughtime",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service = service
    app.openapi = without_validation_errors(app.openapi)  # type: ignore[method-assign]
    _answer_errors(app)
    routers = {id(router): router for router in ROUTES.values()}  # several tasks may share one
    for router in (*routers.values(), insight.router):
        app.include_router(router, responses=ERRORS)
    app.include_router(state)
    if PAGE.is_dir():
        # Not mounted: a mount at / would take every path, also those of endpoints with another method.
        app.router.default = Page(directory=PAGE, html=True)
    else:
        app.add_route("/", lambda request: RedirectResponse("/docs"), include_in_schema=False)
    app.add_middleware(Limits, options=options, ending=service.ending)
    if options.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=options.cors, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(AccessLog, metrics=service.metrics, lines=options.log_json, stream=log)
    return app


class Page(StaticFiles):
    """Files where no endpoint is; a method that they do not take is refused only where there is one."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or 404, or 405."""
        found = await super().get_response(path, {**scope, "method": "GET"})
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return found


@state.get("/health")
async def health(request: Request) -> dict[str, Any]:
    """The state of the server, and the models that it could not open."""
    left_out = [one.name for one in get_service(request).models.left_out]
    return {"status": "ok", **({"left_out": left_out} if left_out else {})}


@state.get("/models")
async def listed(request: Request) -> list[dict[str, Any]]:
    """All models with their tasks."""
    return [one.values() for one in get_service(request).models]


@state.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(generate_latest(get_service(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)


@state.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Every endpoint with what it takes and gives, and how to call it."""
    address = str(request.base_url).rstrip("/")
    return HTMLResponse(docs_page(request.app.openapi(), address))


def _answer_errors(app: FastAPI) -> None:
    """Every error as one sentence in the shape of its contract."""

    @app.exception_handler(RefusalError)
    async def refused(request: Request, error: RefusalError) -> Response:
        path, more = request.url.path, {"param": error.param, "code": error.code}
        return refusal(path, error.status, error.sentence, error.headers, **more)

    @app.exception_handler(InputError)
    async def bad_input(request: Request, error: InputError) -> Response:
        # The same message names an option of the command; here it is a field.
        return refusal(request.url.path, 400, str(error).removeprefix("--"))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        place = [str(part) for part in error.errors()[0]["loc"] if part != "body"]
        param = place[0] if place and not place[0].isdecimal() else None  # a number: where JSON ends
        return refusal(request.url.path, 400, explain(error.errors()), param=param)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        sentence = str(error.detail)
        if error.status_code == 404:
            sentence = UNSERVED
        if error.status_code == 405 and error.headers:
            sentence = f"this path takes {error.headers['Allow']} only; /docs says how"
        return refusal(request.url.path, error.status_code, sentence, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return refusal(request.url.path, CLIENT_LEFT, "the client has left")

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return refusal(request.url.path, 500, "the server failed; its log says why")
