"""What requests hold: texts that are real text, and bodies as JSON or as a form."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from starlette.datastructures import ImmutableMultiDict

from throughtime.serve.refusals import RefusalError


def real(text: str) -> str:
    """Refuse half of a pair of surrogates: JSON can spell it, but it is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("this is no valid text: it has half a surrogate pair") from None
    return text


def some(q: Any) -> Any:
    """Refuse what is no text and no list of texts; LibreTranslate refuses an empty list likewise."""
    if q == []:
        raise ValueError("the list is empty; give at least one text")
    if not all(isinstance(text, str) for text in (q if isinstance(q, list) else [q])):
        raise ValueError("this is neither a text nor a list of texts")
    return q


Text = Annotated[str, AfterValidator(real)]
Texts = Annotated[Text | Annotated[list[Text], Field(min_length=1)], BeforeValidator(some)]
"""One text, or a list of them."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
Asked = TypeVar("Asked", bound=BaseModel)


def listed(q: str | list[str]) -> list[str]:
    """A text as a list of one."""
    return [q] if isinstance(q, str) else q


async def read_body(request: Request, kind: type[Asked]) -> Asked:
    """The body of a request, sent as JSON or as a form; what a form leaves out may stand in the query."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media in FORMS:
        async with request.form() as form:
            values: Any = _fields(request.query_params) | _fields(form)
    elif not (body := await request.body()) and request.query_params:
        values = _fields(request.query_params)
    else:
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            raise RefusalError(400, "the body is neither JSON nor a form") from None
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise RefusalError(400, sentence_of(error.errors())) from None


def sentence_of(errors: Any) -> str:
    """The first thing that is wrong with a body, in one sentence.

    >>> sentence_of([{"loc": ("body", "h"), "msg": "Input should be a valid integer"}])
    'h: input should be a valid integer'
    """
    first = errors[0]
    if first["loc"] in ((), ("body",)) or first.get("type") == "json_invalid":
        return _body_at_fault(first)
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    # Where a field may be of several kinds, their names stand among the places.
    named = (str(part) for part in first["loc"] if part not in ("body", "str", "int", "float"))
    place = ".".join(part for part in named if "[" not in part)
    return f"{place}: {message}" if place else message


def _body_at_fault(first: Any) -> str:
    """What is wrong with a body as a whole; bytes are what was not read as JSON, such as a form."""
    if first.get("type") == "json_invalid":
        reason = str(first["ctx"]["error"])
        return f"the body is not JSON: {reason[:1].lower()}{reason[1:]} at character {first['loc'][-1]}"
    if first.get("type") == "missing" or isinstance(first.get("input"), bytes):
        return "this path takes a JSON object, with the header Content-Type: application/json"
    return "the body is JSON but no object; /docs says what this path takes"


def _fields(given: ImmutableMultiDict[str, Any]) -> dict[str, Any]:
    """A list where a field is given several times."""
    return {name: own[0] if len(own := given.getlist(name)) == 1 else own for name in given}


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI tells of a body that may be JSON or a form."""
    schema = kind.model_json_schema()
    content = {media: {"schema": schema} for media in ("application/json", *FORMS)}
    return {"requestBody": {"required": True, "content": content}}
