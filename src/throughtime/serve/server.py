"""The server process: its socket, uvicorn, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import ssl
import time
from math import ceil
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from throughtime.errors import InputError, ThroughtimeError
from throughtime.files import check_plain
from throughtime.serve.connections import Connection, Connections, Slot
from throughtime.serve.middleware import Ending
from throughtime.serve.observing import log_config
from throughtime.serve.service import Service

BACKLOG = 512
GRACE = 5.0
"""Seconds after the time limit of requests that shutdown waits for them."""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; an error says why it is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise ThroughtimeError(f"port {port} is in use; choose another one") from None
        if number == errno.EACCES:
            raise ThroughtimeError(f"port {port} needs administrator rights; choose one above 1023") from None
        raise InputError("host", f"{host!r} is not an address of this machine") from None


class UnixListener(socket.socket):
    """A listening Unix socket, whose file goes with it."""

    def close(self) -> None:
        """Close the socket and remove its file."""
        if self.fileno() >= 0 and (path := self.getsockname()):
            Path(path).unlink(missing_ok=True)
        super().close()


def listen_unix(path: Path) -> socket.socket:
    """Open a listening Unix socket for the user and the group; one that a killed server left is replaced."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            if not probe.connect_ex(str(path)):
                raise ThroughtimeError(f"{path} is in use; choose another path")
        path.unlink()
    before = os.umask(0o117)
    listener = UnixListener(socket.AF_UNIX)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        reason = "it exists and is not a socket" if path.exists() else error.strerror or str(error)
        raise InputError("unix_socket", f"{path} cannot be opened: {reason}") from None
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def load_tls(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """Load what connections are encrypted with; without a key of its own, the certificate's file has it."""
    for name, path in (("tls_cert", certificate), ("tls_key", key or certificate)):
        check_plain(path)
        try:
            path.open("rb").close()
        except OSError as error:
            raise InputError(name, f"{path} cannot be read ({error.strerror})") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")  # without one, a terminal would be asked
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InputError("tls_key", f"{key or certificate} is not the key of {certificate}") from None
        problem = f"{certificate} and {key or 'it'} are not a certificate and its key as PEM, not encrypted"
        raise InputError("tls_cert", problem) from None
    return context


def format_address(listener: socket.socket, scheme: str = "http") -> str:
    """Return the address as a link."""
    if isinstance(listener, UnixListener):
        return f"{scheme}://localhost"
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn that finishes requests at the first signal, and closes connections at the second.

    It also closes the connection of a client that has not read its answer after `patience` seconds.
    """

    def __init__(self, app: FastAPI, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        service: Service = app.state.service
        # The access log is our own, and no header may claim another client.
        config = uvicorn.Config(
            app,
            log_config=log_config(service.options.log_json),
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            http="h11",
            ws="none",
            timeout_keep_alive=ceil(service.options.idle_timeout) + 1,  # ours comes first
        )
        super().__init__(config)
        self.ending: Ending = service.ending
        self.connections = Connections(service.options, service.metrics, service.rates)
        self.patience, self.tls = timeout + GRACE, tls
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections ourselves: asyncio knows no limits, and logs without end when files run out."""
        await super().startup(sockets=[])

        def create(slot: Slot) -> Connection:
            shared = {"server_state": self.server_state, "app_state": self.lifespan.state}
            return Connection(slot, self.connections, config=self.config, **shared)

        self._accepting = [
            asyncio.ensure_future(self.connections.accept(one, create, self.tls)) for one in sockets or []
        ]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal. uvicorn would raise it again after the shutdown."""
        if self.should_exit and sig == signal.SIGINT:
            self.ending.hurried = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Abort requests that have not arrived, and finish the others or close their connections."""
        self.ending.begin()
        for accepting in self._accepting:
            accepting.cancel()
        self.connections.close_opening()
        finished = asyncio.ensure_future(super().shutdown(sockets))
        last = time.monotonic() + self.patience
        while not (finished.done() or self.ending.hurried or time.monotonic() > last):
            await asyncio.wait({finished}, timeout=0.05)
        if not finished.done():
            # Requests end when their connections close; cancelling them would be logged as failures.
            self.ending.hurried = True
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        await finished
