"""The page at /docs: every endpoint with what it takes, made from the OpenAPI description, offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

METHODS = ("get", "post")
EXAMPLES: dict[str, dict[str, Any]] = {
    "/translate": {"q": "Where is the station?", "source": "en", "target": "fr", "alternatives": 2},
    "/detect": {"q": "Où est la gare ?"},
    "/v1/completions": {"model": "MODEL", "prompt": "the time", "max_tokens": 40, "seed": 1},
    "/tag": {"q": "The old man the boats ."},
    "/classify": {"q": "play some jazz"},
    "/fill": {"q": "I am ___ hungry.", "k": 3},
    "/compose": {"label": "LABEL", "n": 3, "temperature": 0.8, "seed": 1},
    "/forecast": {"series": [{"unique_id": "sales", "y": [112, 118, 132, 129]}], "h": 2, "level": [80]},
}

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886; text-transform: capitalize }
summary { cursor: pointer; padding: .3rem 0 } summary code { font-weight: 600 }
pre { background: #8881; padding: .8rem; overflow-x: auto } table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
"""


def docs_page(description: dict[str, Any], address: str) -> str:
    """The whole page; it loads nothing from anywhere."""
    groups: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
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


def without_validation_errors(describe: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The description without status 422, which FastAPI adds everywhere and this server never gives."""

    def described() -> dict[str, Any]:
        description = describe()
        for operations in description["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        return description

    return described


def _operation(
    description: dict[str, Any], path: str, method: str, operation: dict[str, Any], address: str
) -> str:
    told = escape(operation.get("description") or operation.get("summary") or "")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    fields = "" if body is None else _fields(_resolved(description, body))
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> {told.partition('.')[0]}</summary>"
        f"<p>{told}</p>{fields}<pre>{escape(curl(path, method, address))}</pre></details>"
    )


def curl(path: str, method: str, address: str) -> str:
    """How to call an endpoint from a shell.

    >>> curl("/health", "get", "http://127.0.0.1:8000")
    'curl http://127.0.0.1:8000/health'
    """
    if method == "get":
        return f"curl {address}{path}"
    body = json.dumps(EXAMPLES.get(path, {}), ensure_ascii=False).replace("'", "'\\''")
    return f"curl {address}{path} -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td>"
        f"<td>{'required' if name in required else _default(field)}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    )
    return f"<p>{escape(schema.get('description', ''))}</p><table>{rows}</table>"


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(one) for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "object"))


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "" if default in (None, [], "") else escape(f"default {json.dumps(default)}")


def _resolved(description: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself where one is only named."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = description["components"]["schemas"][name] if name else schema
    return found
