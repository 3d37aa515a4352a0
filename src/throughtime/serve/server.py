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
from throughtime.serve.middleware import Ending

CONNECTIONS, BACKLOG = 1_000, 512
GRACE = 5.0
"""Seconds that requests get to end after their time limit, when the server stops."""


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens there; an error says in one sentence why it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise InputError("host", f"{host!r} is no address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ThroughtimeError(f"port {port} is in use; choose another one") from None
        if error.errno == errno.EACCES:
            raise ThroughtimeError(f"port {port} needs more rights; choose one above 1023") from None
        raise InputError("host", f"{host!r} is no address of this machine") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The address that people can click on."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches this address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host in ("localhost", "::1") or host.startswith("127.")


class Server(uvicorn.Server):
    """uvicorn that finishes what has arrived at the first signal, and closes connections at the second.

    It also closes the connection of a client that has not read an answer after `patience` seconds.
    """

    def __init__(self, app: FastAPI, timeout: float) -> None:
        # The access log is our own, and no header may claim another client.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
        )
        super().__init__(config)
        self.ending: Ending = app.state.service.ending
        self.patience = timeout + GRACE

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. uvicorn would note it, and raise it again after the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.ending.hurried = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give up what has not arrived, and finish the rest or close its connections."""
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
