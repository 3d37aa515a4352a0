"""What a request may be told instead of an answer, in the shape that its clients know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
CLIENT_LEFT = 499


class RefusalError(Exception):
    """One sentence with its status; `param` and `code` are for clients of OpenAI's contract."""

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


def in_shape(
    path: str, status: int, sentence: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """The body of a refusal: nested under /v1, as OpenAI's clients read it, flat elsewhere.

    >>> in_shape("/translate", 400, "q is missing")
    {'error': 'q is missing'}
    >>> in_shape("/v1/completions", 404, "no such model", "model")["error"]["type"]
    'invalid_request_error'
    """
    # What a client sent may be quoted here, and need not be text that can be sent back.
    sentence = sentence.encode("utf-8", "replace").decode()
    if not path.startswith("/v1/"):
        return {"error": sentence}
    kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": sentence, "type": kind, "param": param, "code": code}}


def refusal(
    path: str,
    status: int,
    sentence: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The response of a refusal."""
    return JSONResponse(in_shape(path, status, sentence, param, code), status, headers=dict(headers or {}))
