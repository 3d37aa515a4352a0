"""The server process: a socket, uvicorn on it, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import time
from types import FrameType

import uvicorn
from fastapi import FastAPI

from throughtime.errors import InputError, ThroughtimeError
from throughtime.serve.ending import Ending

CONNECTIONS, BACKLOG = 1_000, 512
GRACE = 5.0
"""Seconds that requests get to end after their time limit, when the server stops."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there, or one sentence that says why none can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise InputError("--host", f"{host!r} is no address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ThroughtimeError(f"port {port} is in use; choose another one with --port") from None
        if error.errno == errno.EACCES:
            raise ThroughtimeError(
                f"port {port} is not for ordinary users; choose one above 1023 with --port"
            ) from None
        raise InputError("--host", f"{host!r} is no address of this machine") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The address that people can click on."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn with an end of its own: told once it finishes what has arrived, told twice it hangs up.

    It also hangs up on who has not read an answer after `patience` seconds.
    """

    def __init__(self, config: uvicorn.Config, ending: Ending, patience: float) -> None:
        super().__init__(config)
        self.ending, self.patience = ending, patience

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. uvicorn would note it, and raise it again after the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.ending.hurried = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give up what has not arrived, finish the rest, or hang up."""
        self.ending.begin()
        finished = asyncio.ensure_future(super().shutdown(sockets))
        last = time.monotonic() + self.patience
        while not (finished.done() or self.ending.hurried or time.monotonic() > last):
            await asyncio.wait({finished}, timeout=0.05)
        if not finished.done():
            # Requests end by themselves when their clients have left; cancelling them would be logged as
            # failures.
            self.ending.hurried = True
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        await finished


def server_of(app: FastAPI, timeout: float) -> Server:
    """uvicorn as we want it; our own log tells of requests, and no header may claim another client."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
    )
    return Server(config, app.state.service.ending, timeout + GRACE)


def loopback(host: str) -> bool:
    """Whether only this machine reaches this address.

    >>> loopback("127.0.0.1"), loopback("localhost"), loopback("0.0.0.0")
    (True, True, False)
    """
    return host in ("localhost", "::1") or host.startswith("127.")
