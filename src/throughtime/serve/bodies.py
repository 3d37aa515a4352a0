"""Bodies of requests and answers. Long ones are read and written beside the event loop.

Parsing and validating hold the interpreter for as long as they run, so the number of values of a body is
limited before it is parsed; an answer is encoded value by value, between which other threads run.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response

from throughtime.interrupt import check_interrupt
from throughtime.serve.requests import MAX_NAME, RefusalError, check_limit
from throughtime.serve.service import get_service
from throughtime.text.texts import finite

Body = TypeVar("Body", bound=BaseModel)
JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
WRONG_KIND = "this path takes a JSON object, with the header Content-Type: application/json"
MAX_FIELDS = 1_000
MAX_VALUES, MAX_NESTED = 250_000, 100_000
"""Maximum values of a JSON body, and maximum lists and objects: what is parsed in some 100 ms."""
SHORT = 16_000
"""Bytes of a body that is read in the event loop: about a millisecond."""
SHORT_ANSWER = 1_000
"""Number of values of an answer that is encoded in the event loop: about a millisecond, too."""
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
ALONE, MAX_PAUSE = threading.Lock(), 0.1
"""Held while a body is parsed and in the pause after it, and the longest pause in seconds."""


async def read_body(request: Request, kind: type[Body], *, forms: bool = False) -> Body:
    """Read a JSON object; with `forms`, also a form, which may be completed by the query."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if forms and media in FORMS:
        if media == FORMS[0]:
            check_limit("the number of fields", body.count(b"&") + 1, MAX_FIELDS, status=413)
        parse = partial(_parse_form, kind, request)
        return await get_service(request).run_aside(request, partial(_alone, parse))
    if forms and not body and request.query_params:
        return _validate(kind, _fields(request.query_params))
    is_json = media.startswith("application/") and media.endswith(("/json", "+json"))
    if not forms and not (body and is_json):
        raise RefusalError(400, WRONG_KIND)
    nested = body.count(b"[") + body.count(b"{")
    check_limit("the number of values", body.count(b",") + nested, MAX_VALUES, status=413)
    check_limit("the number of lists and objects", nested, MAX_NESTED, status=413)
    problem = "neither JSON nor a form" if forms else "not JSON"
    parse = partial(_parse, kind, body, problem, list(request.query_params))
    if len(body) <= SHORT:
        return parse()
    return await get_service(request).run_aside(request, partial(_alone, parse))


def body_schema(kind: type[BaseModel], *, forms: bool = False) -> dict[str, Any]:
    """Return the OpenAPI description of a body for `read_body`."""
    schema = kind.model_json_schema()
    schema = _inline(schema, schema.pop("$defs", {}))
    content = {media: {"schema": schema} for media in (JSON, *(FORMS if forms else ()))}
    return {"requestBody": {"required": True, "content": content}}


async def answer(request: Request, values: Any) -> Response:
    """Return values as a JSON response, or refuse if they have more bytes than the server answers with."""
    service = get_service(request)
    write = partial(_write, values, service.options.max_answer)
    body = write() if weigh(values, SHORT_ANSWER) <= SHORT_ANSWER else await service.run_aside(request, write)
    return Response(body, media_type=JSON)


def weigh(values: Any, most: int) -> int:
    """Return the number of values within these, a long text counting as several; stop above `most`."""
    weight, left = 0, [values]
    while left and weight <= most:
        one = left.pop()
        weight += 1
        if isinstance(one, str):
            weight += len(one) // 100
        elif isinstance(one, dict | list | tuple):
            if len(one) > most:
                return weight + len(one)
            left.extend(one.values() if isinstance(one, dict) else one)
    return weight


def explain(errors: Any) -> str:
    """Describe the first error of a body in one sentence.

    >>> explain([{"loc": ("body", "h"), "msg": "Input should be a valid integer"}])
    'h: input should be a valid integer'
    """
    first = errors[0]
    if first["loc"] in ((), ("body",)):
        return "the body is JSON but not an object; see /docs"
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    # For a field of several types, their names are part of the location.
    named = (str(part) for part in first["loc"] if part not in ("body", "str", "int", "float"))
    place = ".".join(part for part in named if "[" not in part)
    return f"{place}: {message}" if place else message


def _alone(parse: Callable[[], Body]) -> Body:
    """Parse a body while no other is parsed, and then leave the interpreter to other threads for as long."""
    with ALONE:
        check_interrupt()  # nobody may wait for it any more
        began = time.perf_counter()
        try:
            return parse()
        finally:
            time.sleep(min(time.perf_counter() - began, MAX_PAUSE))


def _parse_form(kind: type[Body], request: Request) -> Body:
    """Parse a form whose body has been read; files are no fields."""

    async def parse() -> ImmutableMultiDict[str, Any]:
        return await request.form(max_files=0, max_fields=MAX_FIELDS)

    return _validate(kind, _fields(request.query_params) | _fields(asyncio.run(parse())))


def _parse(kind: type[Body], body: bytes, problem: str, query: list[str]) -> Body:
    try:
        values = json.loads(body)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos}"
        raise RefusalError(400, f"the body is {problem}: {reason}") from None
    except (ValueError, RecursionError):
        raise RefusalError(400, f"the body is {problem}") from None
    check_interrupt()
    asked = _validate(kind, values)
    if query:
        raise RefusalError(400, f"{query[0][:MAX_NAME]}: is in the query, but a JSON body has all fields")
    return asked


def _validate(kind: type[Body], values: Any) -> Body:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        param = str(errors[0]["loc"][0]) if errors[0]["loc"] else None
        raise RefusalError(400, explain(errors), param=param) from None


def _fields(form: ImmutableMultiDict[str, Any]) -> dict[str, Any]:
    """Return the fields; one that is given several times is a list."""
    fields: dict[str, list[Any]] = {}
    for name, value in form.multi_items():
        fields.setdefault(name, []).append(value)
    return {name: own[0] if len(own) == 1 else own for name, own in fields.items()}


def _write(values: Any, most: int) -> bytes:
    try:
        return _encode(values, most)
    except ValueError:
        return _encode(finite(values), most)


def _encode(values: Any, most: int) -> bytes:
    """Encode values one by one: an encoder of all at once would hold the interpreter."""
    pieces, size = [], 0
    for number, piece in enumerate(ENCODER.iterencode(values)):
        if number % SHORT_ANSWER == 0:
            check_interrupt()
        pieces.append(piece.encode())
        size += len(pieces[-1])
        if size > most:
            raise RefusalError(413, f"the answer has more than {most:,} bytes; ask for less at once")
    return b"".join(pieces)


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with its definitions in the places that refer to them."""
    if isinstance(schema, list):
        return [_inline(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline(one, definitions) for name, one in schema.items()}
