"""Where requests come from and what browsers may do: hosts, origins, and the headers of every answer."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from throughtime.serve.requests import Options, refusal

SAFE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}
INLINE = re.compile(r"<(script|style)(?![^>]*\ssrc=)[^>]*>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
READING = frozenset({"GET", "HEAD", "OPTIONS"})


def content_policy(pages: Iterable[str]) -> str:
    """Return the Content-Security-Policy for these pages: nothing from elsewhere, nothing else inline.

    >>> content_policy(["<style>a{}</style>"]).split("; ")[3]
    "style-src 'self' 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk='"
    """
    allowed = {"script": ["'self'", "'wasm-unsafe-eval'"], "style": ["'self'"]}
    for page in pages:
        for tag, text in INLINE.findall(page):
            # A browser hashes a text with plain line ends.
            hashed = hashlib.sha256(text.replace("\r\n", "\n").encode()).digest()
            allowed[tag.lower()].append(f"'sha256-{base64.b64encode(hashed).decode()}'")
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(allowed['script'])}",
            "worker-src 'self' blob:",
            f"style-src {' '.join(allowed['style'])}",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def make_safe(message: Message, policy: str) -> None:
    """Add the headers of every answer to the start of one."""
    extra = {**SAFE_HEADERS, b"content-security-policy": policy.encode()}
    own = {name.lower() for name, _ in message["headers"]}
    message["headers"] += [(name, value) for name, value in extra.items() if name not in own]


def write_refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of an answer to what no endpoint sees; the connection is closed after it."""
    answer = refusal("", status, sentence, {"Connection": "close", **(headers or {})})
    make_safe({"headers": answer.raw_headers}, content_policy([]))
    lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
    lines += (b"%b: %b" % field for field in answer.raw_headers)
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


def host_name(host: str) -> str:
    """Return the name or address in a Host header, without port and in one spelling.

    >>> host_name("LocalHost:80"), host_name("[::1]:80"), host_name("::ffff:10.0.0.1")
    ('localhost', '::1', '10.0.0.1')
    """
    name = host.lower() if host.count(":") > 1 and host[:1] != "[" else re.sub(r":\d*$", "", host.lower())
    name = name.removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        address = ip_address(name)
    except ValueError:
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "0.0.0.0", "127.example.org")]
    [True, True, False, False]
    """
    name = host_name(host)
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def address_group(address: str) -> str:
    """Return the group of addresses that counts as one client: an IPv4 address, or a /64 of IPv6.

    >>> address_group("10.0.0.1"), address_group("2001:db8::7"), address_group("-")
    ('10.0.0.1', '2001:db8::/64', '-')
    """
    name = host_name(address)
    try:
        ip = ip_address(name)
    except ValueError:
        return name
    return str(ip_network((ip, 64), strict=False)) if isinstance(ip, IPv6Address) else name


class Origins:
    """Refuses requests that were meant for another server, or that a page of another one makes.

    421 for a Host that is neither this machine, nor the address of the connection, nor allowed by name: the
    page of an attacker may have a name that leads to this machine. 403 for anything but reading by a page of
    another origin. 400 for a body with two lengths, where a proxy may see another request than we do.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self.app, self.cors = app, frozenset(options.cors)
        self.hosts = frozenset(map(host_name, options.hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        answer = self.app
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            for status, reason, sentence in self._problems(scope, headers):
                scope.setdefault("state", {})["reason"] = reason
                answer = refusal(scope["path"], status, sentence, {"Connection": "close"})
                break
        await answer(scope, receive, send)

    def _problems(self, scope: Scope, headers: dict[bytes, str]) -> Iterable[tuple[int, str, str]]:
        if b"content-length" in headers and b"transfer-encoding" in headers:
            both = "the request has both Content-Length and Transfer-Encoding; send one of them"
            yield 400, "framing", both
        host = headers.get(b"host")
        if host is not None and not self._is_ours(host, scope):
            shown = ascii(host[:80])
            yield 421, "host", f"this server is not {shown}; its operator can allow that name"
        if self._is_foreign(scope["method"], headers):
            yield 403, "origin", "a page of another origin asked; the operator of this server can allow it"

    def _is_ours(self, host: str, scope: Scope) -> bool:
        name, server = host_name(host), scope.get("server") or ("",)
        return "*" in self.hosts or name in self.hosts or is_loopback(name) or name == host_name(server[0])

    def _is_foreign(self, method: str, headers: dict[bytes, str]) -> bool:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if method in READING or "*" in self.cors or origin in self.cors:
            return False
        if site is not None:
            return site not in ("same-origin", "none")
        # Programs send neither, older browsers the origin alone.
        return origin is not None and origin.partition("://")[2].lower() != headers.get(b"host", "").lower()
