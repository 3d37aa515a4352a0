"""Checking and refusing requests: options of the server, texts, searches, API keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

from fastapi import Request
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    WithJsonSchema,
    create_model,
    model_validator,
)
from starlette.responses import JSONResponse

from throughtime.errors import InputError, shorten
from throughtime.runtime.keywords import read_keywords
from throughtime.search.strategies import describe_options, strategy_options
from throughtime.serve.cost import MAX_BEAMS, MAX_CHOICES, MAX_OF_OPTION, Cost
from throughtime.serve.keys import Keys

Fielded = TypeVar("Fielded", bound=BaseModel)
CLIENT_LEFT = 499
MAX_NAME = 80
"""Maximum number of characters of a name that an error quotes, and of the value of an option."""
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


SERVED: dict[str, dict[str, float]] = {
    "num_beams": {"le": MAX_BEAMS},
    "num_return_sequences": {"le": MAX_CHOICES},
    "length_penalty": {"ge": 0, "le": 10},
    "temperature": {"ge": 0, "le": 2},
    "top_k": {"ge": 1},
    "top_p": {"gt": 0, "le": 1},
    "seed": {"lt": 2**31},
}
"""Bounds of the options of predictions that are narrower here than in Python."""


@dataclass(frozen=True)
class Options:
    """Access, limits and batching of a server. Times are in seconds."""

    api_key: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    protect_metrics: bool = False
    hosts: tuple[str, ...] = ()  # allowed besides loopback names and the address of the connection
    cors: tuple[str, ...] = ()
    rate_limit: int | None = None  # requests per minute and client
    max_connections: int = 1_000
    max_connections_per_client: int = 256  # per address
    header_timeout: float = 10.0  # from the first byte of a request, or the connection
    idle_timeout: float = 5.0  # until the next request of a connection
    timeout: float = 30.0  # for a body to arrive, for its answer, and for a client to read it
    max_bytes: int = 1_000_000  # of a request
    max_characters: int = 20_000  # of its texts together
    max_texts: int = 128
    max_tokens: int = 2_000  # of a completion
    max_rows: int = 100_000  # of all series of a request together
    max_horizon: int = 2_000
    max_steps: int = 5_000_000  # of the model for a request: see `Cost`
    max_answer: int = 16_000_000  # bytes
    batch: int = 64  # texts computed together
    batch_wait: float = 0.004  # how long the first of them waits for others
    queue: int = 256  # texts that may wait for a model
    log_json: bool = False


class RefusalError(Exception):
    """An error with an HTTP status; `param` and `code` are for clients of OpenAI's API."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.param, self.code = status, sentence, param, code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


def error_body(
    path: str, status: int, sentence: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return the body of an error: nested under /v1, as OpenAI's clients expect it, flat elsewhere.

    >>> error_body("/translate", 400, "q is missing")
    {'error': 'q is missing'}
    >>> error_body("/v1/completions", 404, "no such model", "model")["error"]["type"]
    'invalid_request_error'
    """
    # Quoted input of a client need not be valid Unicode.
    sentence = shorten(sentence.encode("utf-8", "replace").decode())
    if not path.startswith("/v1/"):
        return {"error": sentence}
    kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": sentence, "type": kind, "param": param, "code": code}}


def refusal(
    path: str, status: int, sentence: str, headers: Mapping[str, str] | None = None, **more: str | None
) -> JSONResponse:
    """Return the response of an error; `more` is `param` and `code`."""
    return JSONResponse(error_body(path, status, sentence, **more), status, headers=dict(headers or {}))


def check_key(request: Request, keys: Keys, api_key: str | None = None) -> None:
    """Refuse a request without a key, as a bearer token or in LibreTranslate's field `api_key`."""
    if not keys.required:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    # The text of a header has a character for each byte.
    bearer = token.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
    given = [key for key in ((api_key or "").encode(), bearer) if key]
    name = keys.name_of(given)
    if name is not None:
        request.state.key = name  # for the log
        return
    sentence = "the API key is wrong" if given else "give the API key as `Authorization: Bearer KEY`"
    if request.url.path.startswith("/v1/"):
        raise RefusalError(401, sentence, code="invalid_api_key")
    raise RefusalError(403, sentence)


def check_texts(texts: Sequence[str], options: Options) -> None:
    """Refuse more or longer texts than the server accepts."""
    check_limit("the number of texts", len(texts), options.max_texts, status=413)
    check_limit("the number of characters", sum(map(len, texts)), options.max_characters, status=413)


def check_cost(cost: Cost, options: Options) -> None:
    """Refuse a request that asks for more than the server computes or answers at once."""
    check_limit("the number of steps of the model", cost.steps, options.max_steps, status=413)
    check_limit("the number of bytes of the answer", cost.answer, options.max_answer, status=413)


def check_limit(name: str, value: int, most: int, *, status: int = 400, param: str | None = None) -> None:
    """Refuse a value above its limit."""
    if value > most:
        raise RefusalError(status, f"{name} is {value:,}, expected at most {most:,}", param=param)


def _check_unicode(text: str) -> str:
    """Refuse half of a surrogate pair, which JSON can contain but which is not valid text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("is not valid text: it has half a surrogate pair") from None
    return text


def _check_type(q: Any) -> Any:
    """Refuse values other than a text or a list of texts; LibreTranslate refuses an empty list, too."""
    if q == []:
        raise ValueError("the list is empty; give at least one text")
    if not all(isinstance(text, str) for text in (q if isinstance(q, list) else [q])):
        raise ValueError("this is neither a text nor a list of texts")
    return q


Text = Annotated[str, AfterValidator(_check_unicode)]
TextList = Annotated[list[Text], Field(min_length=1, fail_fast=True)]
Texts = Annotated[Text | TextList, BeforeValidator(_check_type)]
"""One text, or a list of them."""


class Fields(BaseModel):
    """The fields of a request. Others are refused, with the nearest name: a typo would change nothing."""

    @classmethod
    def additional_fields(cls, values: Mapping[str, Any]) -> Iterable[str]:
        """The fields that a request with these values may have besides the declared ones."""
        return ()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.keys() <= cls.model_fields.keys():
            known = {*cls.model_fields, *cls.additional_fields(values)}
            name = next((name[:MAX_NAME] for name in values if name not in known), None)
            if name is not None:
                problem = f"is not a field of this request, {describe_options(name, known)}"
                raise RefusalError(400, f"{name}: {problem}", param=name)
        return values


def take_options(options: Any, *without: str) -> Callable[[type[Fielded]], type[Fielded]]:
    """Add the options that a `TypedDict` declares to the fields of a request, but for those `without`."""

    def extend(kind: type[Fielded]) -> type[Fielded]:
        fields: dict[str, Any] = {}
        hints = get_type_hints(options)
        for name, keyword in read_keywords(options).items():
            if name not in without:
                bounds: dict[str, Any] = {"ge": keyword.min, "le": keyword.max, **SERVED.get(name, {})}
                given = {bound: value for bound, value in bounds.items() if value is not None}
                kind_of_value = Text if hints[name] is str else hints[name]
                fields[name] = (kind_of_value, Field(keyword.default, **given))
        return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **fields)

    return extend


class TextsRequest(Fields):
    """Texts, and the model to use; by default the first of its task."""

    q: Texts
    model: Text | None = None


NUMBERS = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}
SEQUENCE = {"type": "array", "items": NUMBERS}
TEXT = {"type": "string"}
SCHEMA = {"anyOf": [TEXT, {"type": "array", "items": TEXT}, SEQUENCE, {"type": "array", "items": SEQUENCE}]}


class VectorsRequest(TextsRequest):
    """Texts, or sequences of vectors for a model that reads these.

    A sequence is a list of vectors, which are lists of numbers, null where one is missing; or a text with a
    line of numbers for each step.
    """

    q: Annotated[Texts, WithJsonSchema(SCHEMA)]
    _arrays: bool = PrivateAttr(False)

    @property
    def has_arrays(self) -> bool:
        """Whether numbers were given."""
        return self._arrays

    @model_validator(mode="wrap")
    @classmethod
    def _write_arrays(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Write sequences of vectors as texts, so that they count and travel as these."""
        q: Any = values.get("q") if isinstance(values, dict) else None
        depth = _count_depth(q)
        if depth:
            q = [_write_rows(one) for one in q] if depth == 3 else _write_rows(q)
            values = {**values, "q": q}
        asked = validate(values)
        asked._arrays = bool(depth)
        return asked


def _count_depth(value: Any) -> int:
    """The depth of lists of numbers, 0 for anything else.

    >>> _count_depth([[1, 2], [3, None]]), _count_depth(["a text"])
    (2, 0)
    """
    if not isinstance(value, list) or not value:
        return 0
    inside = _count_depth(value[0])
    numbers = value[0] is None or (isinstance(value[0], int | float) and not isinstance(value[0], bool))
    return inside + 1 if 0 < inside < 3 else int(numbers)


def _write_rows(sequence: Any) -> str:
    """Return a sequence of vectors as text, a line for each step."""
    lines = []
    for row in sequence if isinstance(sequence, list) else [sequence]:
        cells = row if isinstance(row, list) else [row]
        if not all(cell is None or (isinstance(cell, int | float) and math.isfinite(cell)) for cell in cells):
            raise ValueError("q holds something that is not a finite number")
        lines.append(",".join("" if cell is None else repr(cell) for cell in cells))
    return "\n".join(lines)


class SearchRequest(Fields):
    """How to search for texts: `search` names a strategy, and its options are additional fields."""

    model_config = ConfigDict(extra="allow")

    search: Text | None = None
    usual_search: ClassVar[str | None] = None
    """The search of a request that names none, if it has options besides the declared fields."""

    @classmethod
    def choose_search(cls, values: Mapping[str, Any]) -> Any:
        """The search of a request with these values."""
        return values.get("search") or cls.usual_search

    @classmethod
    def additional_fields(cls, values: Mapping[str, Any]) -> Iterable[str]:
        """The options of the search."""
        search = cls.choose_search(values)
        try:
            return strategy_options(search) if isinstance(search, str) else ()
        except InputError as error:
            raise RefusalError(400, str(error), param="search") from None

    def search_options(self, **fields: Any) -> dict[str, Any]:
        """Return the strategy and its options as keywords of Python, without those that are None."""
        options = {name: value for name, value in fields.items() if value is not None}
        for name, value in (self.model_extra or {}).items():
            if isinstance(value, list | dict) or len(str(value)) > MAX_NAME:
                raise RefusalError(400, f"{name[:MAX_NAME]}: is not a number, true or false, or a short text")
            options[name] = value
        if self.search is None:
            return options
        known = strategy_options(self.search)
        for name, most in MAX_OF_OPTION.items():
            if name in options and name in known:
                check_limit(name, known[name].read(options[name]), most)
            elif name in known and (known[name].default or 0) > most:
                options[name] = most
        return options | {"search": self.search}


def as_list(q: str | list[str]) -> list[str]:
    """Return a list, with one element for a single text."""
    return [q] if isinstance(q, str) else q
